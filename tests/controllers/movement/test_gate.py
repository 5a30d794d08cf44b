"""The disruption gate: which part of a decision may begin, what is held, and what is charged."""

from datetime import timedelta
from typing import Any

import msgspec
from builders import NOON, binding, deployment, placement, status_item
from views import FakeView

from static_fleet import StaticFleet, serving_cluster
from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionPolicy,
    DisruptionPolicySpec,
    Freeze,
    Move,
    MovedObject,
    MoveSpec,
)
from trimtab.api.kinds.rebalancer import MoveOptions, RebalancerSpec, WorkloadRebalancer
from trimtab.api.kinds.work import Binding, HeldReplicas, StateBeforeMove
from trimtab.api.profile import TRIMTAB
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Key, Meta
from trimtab.controllers import well_known
from trimtab.controllers.movement import state
from trimtab.controllers.movement.gate import (
    BudgetBusy,
    GateResult,
    apply_gate,
    move_started_events,
    options_for,
    removes_last_copy,
)
from trimtab.decide.gate import Transfer
from trimtab.decide.karmada import decide
from trimtab.decide.request import placement_request_of

WEIGHTS = [{"targetCluster": {"clusterNames": [name]}, "weight": 1} for name in ("m1", "m2")]
EVENLY = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"staticWeightList": WEIGHTS},
}
FLEET = [serving_cluster("m1"), serving_cluster("m2")]


def web(clusters: dict[str, int], **fields: Any) -> Binding:
    """A binding that a fresh decision spreads evenly over m1 and m2."""
    items = tuple(status_item(name, status={"readyReplicas": n}) for name, n in clusters.items())
    return binding(
        clusters=clusters, placement=placement(replicaScheduling=EVENLY), status_aggregated_status=items, **fields
    )


def budget(name: str = "b", **spec: Any) -> DisruptionBudget:
    return DisruptionBudget(
        metadata=Meta(name=name, namespace="demo", resource_version="2"),
        spec=DisruptionBudgetSpec(target="Workloads", selector=LabelSelector()).but(**spec),
    )


def apply(
    subject: Binding,
    *things: Any,
    cause: str = "Rebalance",
    options: MoveOptions | None = None,
    busy: set[Key] | None = None,
    template: Any = None,
) -> GateResult | BudgetBusy:
    clusters: list[Cluster] = [thing for thing in things if isinstance(thing, Cluster)] or FLEET
    others = [thing for thing in things if not isinstance(thing, Cluster)]
    view = FakeView([subject, *clusters, *others], raws=[template or deployment()])
    request = msgspec.structs.replace(placement_request_of(subject), fresh=True)
    decision = decide(request, StaticFleet(clusters).at(NOON), TRIMTAB)
    return apply_gate(subject, decision, cause, options or MoveOptions(), view, set() if busy is None else busy)


def admitted(subject: Binding, *things: Any, **more: Any) -> GateResult:
    result = apply(subject, *things, **more)
    assert isinstance(result, GateResult)
    return result


def shares(result: GateResult) -> dict[str, int]:
    return {target.name: target.replicas for target in result.clusters}


def test_a_move_without_budgets_begins_whole_and_holds_the_old_replicas() -> None:
    result = admitted(web({"m1": 4}))
    assert (shares(result), result.is_complete, result.charged_budgets) == ({"m1": 2, "m2": 2}, True, ())
    assert [(hold.cluster, hold.replicas, hold.reason) for hold in result.holds] == [("m1", 2, "Rebalance")]
    assert result.replacement is not None
    assert [(target.name, target.replicas) for target in result.replacement.before] == [("m1", 4)]
    (move,) = result.log_entries
    assert isinstance(move, Move)
    assert (move.spec.from_, move.spec.replicas, move.spec.mode) == ("m1", 2, "ReplacementFirst")


def test_a_voluntary_move_is_charged_to_every_budget_that_applies() -> None:
    result = admitted(web({"m1": 4}), budget("a", max_unavailable=2), budget("b", min_available=1))
    charged = {
        one.name: [(entry.from_, entry.replicas) for entry in one.status.in_flight] for one in result.charged_budgets
    }
    assert charged == {"a": [("m1", 2)], "b": [("m1", 2)]}


def test_an_involuntary_cause_is_not_charged() -> None:
    assert admitted(web({"m1": 4}), budget(max_concurrent=0), cause="ClusterFailover").charged_budgets == ()


def test_a_budget_that_refuses_changes_nothing_and_says_why() -> None:
    result = admitted(web({"m1": 4}), budget(max_concurrent=0))
    assert (shares(result), result.holds, result.log_entries, result.charged_budgets) == ({"m1": 4}, (), (), ())
    assert result.refusal is not None
    assert (result.refusal.code, result.is_complete) == ("TooManyInFlight", False)


def test_a_budget_that_was_charged_in_the_same_batch_makes_the_next_binding_wait() -> None:
    busy: set[Key] = set()
    strict = budget(max_unavailable=1)
    assert isinstance(apply(web({"m1": 4}), strict, busy=busy), GateResult)
    assert busy == {key_of(strict)}
    assert isinstance(apply(web({"m1": 4}), strict, busy=busy), BudgetBusy)


def test_transfers_with_a_hold_continue_without_being_charged_again() -> None:
    before = web({"m1": 4})
    moving = web(
        {"m1": 2, "m2": 2},
        status_holds=(HeldReplicas(cluster="m1", replicas=2, since=NOON, reason="Rebalance"),),
        status_replacement=StateBeforeMove(before=before.spec.clusters),
    )
    for one in (budget(max_concurrent=0), budget(max_unavailable=2)):
        result = admitted(moving, one)
        assert (shares(result), result.charged_budgets, result.log_entries) == ({"m1": 2, "m2": 2}, (), ())
        assert (result.holds, result.is_complete) == (moving.status.holds, True)


def test_a_freeze_keeps_the_holds_of_a_move_in_progress() -> None:
    """Without them dispatch would delete the old replicas before the new ones are ready."""
    held = (HeldReplicas(cluster="m1", replicas=2, since=NOON, reason="Rebalance"),)
    before = StateBeforeMove(before=web({"m1": 4}).spec.clusters)
    moving = web({"m1": 2, "m2": 2}, status_holds=held, status_replacement=before)
    frozen = DisruptionPolicy(
        metadata=Meta(name="default"), spec=DisruptionPolicySpec(freeze=Freeze(reason="audit", since=NOON))
    )
    result = admitted(moving, frozen, cause="PolicyChange")
    assert (result.holds, result.replacement, result.clusters) == (held, before, moving.spec.clusters)
    assert (result.is_complete, result.log_entries, result.charged_budgets) == (False, (), ())


def test_max_surge_bounds_the_replicas_that_move_together() -> None:
    result = admitted(web({"m1": 4}), options=MoveOptions(max_surge=1))
    assert (shares(result), result.is_complete) == ({"m1": 3, "m2": 1}, False)


def test_at_once_leaves_no_hold_unless_it_would_remove_the_last_ready_copy() -> None:
    at_once = MoveOptions(mode="AtOnce")
    assert admitted(web({"m1": 4}), options=at_once).holds == ()
    tainted = [serving_cluster("m1", "x:NoSchedule"), serving_cluster("m2")]
    assert [hold.cluster for hold in admitted(web({"m1": 4}), *tainted, options=at_once).holds] == ["m1"]


def test_the_template_may_choose_the_mode() -> None:
    template = deployment(annotations={well_known.MOVE_MODE: "AtOnce"})
    assert admitted(web({"m1": 4}), template=template).holds == ()


def test_a_policy_edit_moves_at_once_unless_a_budget_applies() -> None:
    assert admitted(web({"m1": 4}), cause="PolicyChange").holds == ()
    assert admitted(web({"m1": 4}), budget(max_unavailable=1), cause="PolicyChange").holds != ()


def test_replicas_that_scaling_moves_stay_until_they_are_replaced() -> None:
    result = admitted(web({"m1": 4}), budget(max_concurrent=0), cause="Scale")
    assert [(hold.cluster, hold.replicas) for hold in result.holds] == [("m1", 2)]
    assert (shares(result), result.charged_budgets) == ({"m1": 2, "m2": 2}, ())
    assert admitted(web({"m9": 0}), cause="Scale").holds == (), "nothing runs there"
    fewer = admitted(web({"m1": 4, "m2": 4}, replicas=4), cause="Scale")
    assert (shares(fewer), fewer.holds) == ({"m1": 2, "m2": 2}, ())


def test_every_new_hold_has_one_event() -> None:
    subject = web({"m1": 4})
    result = admitted(subject)
    assert [event.reason for event in move_started_events(subject, result)] == ["MoveStarted"]
    holding = subject.but(status=subject.status.but(holds=result.holds))
    assert list(move_started_events(holding, result)) == []


def test_options_come_from_the_rebalancer_that_requested_the_move() -> None:
    wanted = MoveOptions(max_surge=1)
    rebalancer = WorkloadRebalancer(metadata=Meta(name="job"), spec=RebalancerSpec(move=wanted))
    subject = state.request(web({"m1": 4}), NOON, "Rebalance", "job")
    assert options_for(subject, FakeView([rebalancer])) == wanted
    assert options_for(web({"m1": 4}), FakeView(settings={"move-timeout-seconds": 5})).timeout_seconds == 5


def test_a_drain_never_takes_the_last_copy_at_once() -> None:
    leaving = [serving_cluster("m1", "x:NoSchedule"), serving_cluster("m2", "x:NoSchedule")]
    subject = web({"m1": 4})
    nowhere = decide(
        msgspec.structs.replace(placement_request_of(subject), fresh=True), StaticFleet(leaving).at(NOON), TRIMTAB
    )
    view = FakeView([subject, *leaving], raws=[deployment()])
    result = apply_gate(subject, nowhere, "Drain", MoveOptions(), view, set())
    assert isinstance(result, GateResult)
    assert (shares(result), result.refusal and result.refusal.code) == ({"m1": 4}, "LastCopy")


def test_a_drain_never_takes_the_last_applied_copy_of_an_object_without_replicas() -> None:
    leaving = [serving_cluster("m1", "x:NoSchedule"), serving_cluster("m2", "x:NoSchedule")]
    subject = binding(clusters={"m1": 0}, replicas=0, status_aggregated_status=(status_item("m1"),))
    nowhere = decide(
        msgspec.structs.replace(placement_request_of(subject), fresh=True), StaticFleet(leaving).at(NOON), TRIMTAB
    )
    result = apply_gate(
        subject, nowhere, "Drain", MoveOptions(), FakeView([subject, *leaving], raws=[deployment()]), set()
    )
    assert isinstance(result, GateResult)
    assert (shares(result), result.refusal and result.refusal.code) == ({"m1": 0}, "LastCopy")


MOVE_OUT_OF_M3 = Move(
    metadata=Meta(name="web-deployment.2.m3", namespace="demo"),
    spec=MoveSpec(
        object=MovedObject(api_version="apps/v1", kind="Deployment", namespace="demo", name="web"),
        cause="ClusterFailover",
        from_="m3",
        replicas=2,
    ),
)


def moving_out_of_m1(clusters: dict[str, int]) -> Binding:
    """A drain of m1 in progress; m3 had replicas when it began."""
    return web(
        clusters,
        replicas=4,
        status_holds=(HeldReplicas(cluster="m1", replicas=1, since=NOON, reason="Drain"),),
        status_replacement=StateBeforeMove(before=web({"m1": 2, "m3": 2}).spec.clusters),
    )


def test_a_cluster_that_was_evicted_during_a_move_is_not_logged_or_charged_again() -> None:
    moving = moving_out_of_m1({"m1": 1, "m2": 1})
    for cause in ("Scale", "PolicyChange"):
        result = admitted(moving, MOVE_OUT_OF_M3, budget(max_concurrent=0), cause=cause)
        assert (shares(result), result.charged_budgets, result.log_entries) == ({"m1": 2, "m2": 2}, (), ())
        assert [(hold.cluster, hold.reason) for hold in result.holds] == [("m3", "ClusterFailover")]


def test_a_move_that_was_logged_but_did_not_begin_is_charged() -> None:
    """A crash after the Move was written: m3 is still placed, so its replicas do not leave without the gate."""
    moving = moving_out_of_m1({"m1": 1, "m2": 1, "m3": 2})
    refused = admitted(moving, MOVE_OUT_OF_M3, budget(max_concurrent=0), cause="PolicyChange")
    assert (refused.is_complete, shares(refused)["m3"]) == (False, 2)
    begun = admitted(moving, MOVE_OUT_OF_M3, budget(max_unavailable=4), cause="PolicyChange")
    assert [entry.from_ for entry in begun.charged_budgets[0].status.in_flight] == ["m3"]


def test_a_move_at_once_starts_the_replacement_first_where_the_budget_has_nothing_to_spare_and_allows_a_surge() -> None:
    at_once = MoveOptions(mode="AtOnce")
    refused = admitted(web({"m1": 4}), budget(min_available=4), options=at_once)
    assert (shares(refused), refused.refusal and refused.refusal.code) == ({"m1": 4}, "NotEnoughAvailable")
    surging = admitted(web({"m1": 4}), budget(min_available=4, surge="Allowed"), options=at_once)
    assert (shares(surging), surging.is_complete) == ({"m1": 2, "m2": 2}, True)
    assert [hold.cluster for hold in surging.holds] == ["m1"], "no replica leaves before its replacement is ready"
    sparing = admitted(web({"m1": 4}), budget(min_available=2, surge="Allowed"), options=at_once)
    assert (shares(sparing), sparing.holds) == ({"m1": 2, "m2": 2}, ())


def test_held_replicas_wait_as_long_as_the_options_of_the_move_say() -> None:
    for seconds in (60, 3600):
        (hold,) = admitted(web({"m1": 4}), options=MoveOptions(timeout_seconds=seconds)).holds
        assert (hold.since, hold.until) == (NOON, NOON + timedelta(seconds=seconds))


def test_a_copy_of_a_duplicated_workload_moves_as_a_whole() -> None:
    """A part of a copy is not what the policy asks for, in either cluster."""
    tainted = [serving_cluster("m1", "x:NoSchedule"), serving_cluster("m2")]
    items = (status_item("m1", status={"readyReplicas": 4}),)
    copied = binding(clusters={"m1": 4}, replicas=4, placement=placement(), status_aggregated_status=items)
    assert shares(admitted(copied, *tainted, options=MoveOptions(max_surge=1))) == {"m2": 4}


def test_only_voluntary_moves_wait_for_an_approval() -> None:
    careful = DisruptionPolicy(metadata=Meta(name="default"), spec=DisruptionPolicySpec(approval="Required"))
    refused = admitted(web({"m1": 4}), careful)
    assert (shares(refused), refused.refusal and refused.refusal.code) == ({"m1": 4}, "ApprovalRequired")
    for cause in ("ClusterFailover", "ApplicationFailover", "Scale"):
        assert admitted(web({"m1": 4}), careful, cause=cause).is_complete, cause


def test_scaling_goes_on_while_moves_are_frozen() -> None:
    frozen = DisruptionPolicy(
        metadata=Meta(name="default"), spec=DisruptionPolicySpec(freeze=Freeze(reason="rehearsal"))
    )
    assert shares(admitted(web({"m1": 1}, replicas=4), frozen, cause="Scale")) != {"m1": 1}
    assert shares(admitted(web({"m1": 1}, replicas=4), frozen)) == {"m1": 1}


def test_a_move_that_takes_everything_at_once_keeps_the_last_ready_copy_until_it_is_replaced() -> None:
    at_once = MoveOptions(mode="AtOnce")
    lonely, others = web({"m3": 4}), web({"m1": 2, "m3": 2})
    m3 = serving_cluster("m3")
    assert admitted(lonely, *FLEET, m3, options=at_once).holds
    assert not admitted(others, *FLEET, m3, options=at_once).holds
    assert not admitted(lonely, *FLEET, m3, options=at_once, cause="ClusterFailover").holds


def test_of_objects_without_replicas_the_last_applied_copy_is_not_drained_at_once() -> None:
    def of_settings(*applied: str) -> Binding:
        subject = binding(clusters=dict.fromkeys(("m1", "m2", "m3"), 0))
        resource = subject.spec.resource.but(api_version="v1", kind="ConfigMap")
        items = tuple(status_item(name, applied=name in applied) for name in ("m1", "m2", "m3"))
        return subject.but(spec=subject.spec.but(resource=resource), status=subject.status.but(aggregated_status=items))

    planned = [Transfer("m1", 0), Transfer("m2", 0)]
    view = FakeView(FLEET)
    assert removes_last_copy(of_settings("m1", "m2"), planned, view)
    assert removes_last_copy(of_settings("m2"), planned, view)
    assert not removes_last_copy(of_settings("m1", "m3"), planned, view)
    assert not removes_last_copy(of_settings(), planned, view)


def test_of_workloads_the_last_ready_copy_counts() -> None:
    planned = [Transfer("m1", 2)]
    assert removes_last_copy(web({"m1": 2}), planned, FakeView(FLEET))
    assert not removes_last_copy(web({"m1": 3}), planned, FakeView(FLEET))
    assert not removes_last_copy(web({"m1": 2, "m2": 1}), planned, FakeView(FLEET))
    starting = web({"m1": 2})
    item = status_item("m1", status={"readyReplicas": 0})
    starting = starting.but(status=starting.status.but(aggregated_status=(item,)))
    assert not removes_last_copy(starting, planned, FakeView(FLEET))


def test_a_rebalancer_without_move_options_moves_by_default() -> None:
    requested = state.request(web({"m1": 4}), NOON, "Rebalance", "job")
    job = WorkloadRebalancer(metadata=Meta(name="job"), spec=RebalancerSpec())
    assert options_for(requested, FakeView([job])) == options_for(web({"m1": 4}), FakeView())


def test_only_voluntary_moves_need_an_approval_and_budgets() -> None:
    asks = budget(approval="Required", max_concurrent=0)
    assert admitted(web({"m1": 4}), asks).refusal is not None
    failover = admitted(web({"m1": 4}), asks, cause="ClusterFailover")
    assert (failover.refusal, failover.charged_budgets) == (None, ())


def test_a_decision_that_takes_nothing_away_needs_no_approval() -> None:
    asks = budget(approval="Required", max_concurrent=0)
    grown = admitted(web({"m1": 2}, replicas=4), asks)
    assert (grown.refusal, shares(grown)) == (None, {"m1": 2, "m2": 2})
