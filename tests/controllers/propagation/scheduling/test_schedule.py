"""Scheduling of bindings, above all decisions that remove replicas from a cluster."""

from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import MINUTE, NOON, binding, cluster, deployment, placement, status_item
from views import FakeView

from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster, ResourceSummary
from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetSpec,
    Move,
    MovedObject,
    MoveSpec,
    MoveTarget,
)
from trimtab.api.kinds.ocm_placement import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from trimtab.api.kinds.rebalancer import RebalancerSpec, WorkloadRebalancer
from trimtab.api.kinds.work import Binding, BindingStatus, Component, GracefulEvictionTask, HeldReplicas, TargetCluster
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Meta
from trimtab.controllers import well_known
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import RecordEvent, RequeueAfter, ReserveCapacity, WriteSequence
from trimtab.controllers.movement import state
from trimtab.controllers.propagation.scheduling.schedule import schedule
from trimtab.controllers.propagation.scheduling.triggers import affected_bindings, needs_scheduling
from trimtab.decide.fleet import Fleet
from trimtab.plugins import filters, scores
from trimtab.registry import discover

SECOND = timedelta(seconds=1)
EVENLY = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}


class FixedFleet:
    def __init__(self, clusters: list[Cluster]) -> None:
        discover(filters)
        discover(scores)
        self.clusters = clusters

    def at(self, now: Any) -> Fleet[Cluster]:
        return Fleet.of(self.clusters, now=now)


def ready_cluster(name: str, *taints: str) -> Cluster:
    enabled = (APIEnablement(group_version="apps/v1", resources=(APIResource(name="deployments", kind="Deployment"),)),)
    summary = ResourceSummary(allocatable={"pods": "110", "cpu": "8"})
    found = cluster(name, *taints)
    return found.but(status=found.status.but(api_enablements=enabled, resource_summary=summary))


def requested_binding(replicas: dict[str, int], *, rule: Any = None, **fields: Any) -> Binding:
    """A binding of the Deployment `web` with a pending reschedule request."""
    placed = placement(**(rule or {"replicaScheduling": EVENLY}))
    items = tuple(status_item(name, status={"readyReplicas": n}) for name, n in replicas.items())
    found = binding(
        clusters=replicas,
        placement=placed,
        status_aggregated_status=items,
        **{"reschedule_triggered_at": NOON, **fields},
    )
    marked = found.metadata.annotations | {well_known.APPLIED_PLACEMENT: msgspec.json.encode(placed).decode()}
    return found.but(metadata=found.metadata.but(annotations=marked))


def schedule_one(subject: Binding, *things: Any, **options: Any) -> list[Any]:
    clusters = [thing for thing in things if isinstance(thing, Cluster)] or [ready_cluster("m1"), ready_cluster("m2")]
    others = [thing for thing in things if not isinstance(thing, Cluster)]
    view = FakeView([subject, *clusters, *others], fleet=FixedFleet(clusters), raws=[deployment()], **options)
    return [effect for _, effect in schedule([subject], view)]


def binding_writes(effects: list[Any]) -> tuple[Binding, ...]:
    for effect in effects:
        if isinstance(effect, WriteSequence):
            return effect.steps  # type: ignore[return-value]
        if isinstance(effect, Binding):
            return (effect,)
    return ()


def replicas_by_cluster(subject: Binding) -> dict[str, int]:
    return {target.name: target.replicas for target in subject.spec.clusters}


def budget(**spec: Any) -> DisruptionBudget:
    return DisruptionBudget(
        metadata=Meta(name="b", namespace="demo", resource_version="2"),
        spec=DisruptionBudgetSpec(target="Workloads", selector=LabelSelector()).but(**spec),
    )


def test_hold_is_written_before_placement_changes() -> None:
    first, last = binding_writes(schedule_one(requested_binding({"m1": 4})))
    assert (replicas_by_cluster(first), replicas_by_cluster(last)) == ({"m1": 4}, {"m1": 2, "m2": 2})
    assert first.status.holds == last.status.holds
    (hold,) = last.status.holds
    assert (hold.cluster, hold.replicas, hold.reason) == ("m1", 2, "Rebalance")
    assert (hold.since, hold.until) == (NOON, NOON + 600 * SECOND)
    assert last.status.last_scheduled_time == NOON


def test_upstream_profile_moves_without_hold() -> None:
    (after,) = binding_writes(schedule_one(requested_binding({"m1": 4}), profile=UPSTREAM))
    assert replicas_by_cluster(after) == {"m1": 2, "m2": 2}
    assert after.status.holds == ()


def test_move_charges_budget_then_writes_move_then_binding() -> None:
    effects = schedule_one(requested_binding({"m1": 4}), budget(max_unavailable=1))
    order = [type(effect) for effect in effects if isinstance(effect, DisruptionBudget | Move | WriteSequence)]
    assert order == [DisruptionBudget, Move, WriteSequence]
    (charged,) = [effect for effect in effects if isinstance(effect, DisruptionBudget)]
    assert [(entry.object, entry.from_, entry.replicas) for entry in charged.status.in_flight] == [
        ("Deployment/web", "m1", 2)
    ]
    (entry,) = [effect for effect in effects if isinstance(effect, Move)]
    assert (entry.spec.cause, entry.spec.from_, entry.spec.replicas) == ("Rebalance", "m1", 2)
    assert [use.name for use in entry.spec.budgets] == ["b"]


def test_refusing_budget_keeps_placement_and_pending_request() -> None:
    effects = schedule_one(requested_binding({"m1": 4}), budget(min_available=5))
    (after,) = binding_writes(effects)
    assert replicas_by_cluster(after) == {"m1": 4}
    assert after.status.last_scheduled_time == NOON - MINUTE
    assert [c.reason for c in after.status.conditions if c.type == "Stalled"] == ["MoveBlocked"]
    assert [effect.reason for effect in effects if isinstance(effect, RecordEvent)] == ["MoveBlocked"]
    assert any(isinstance(effect, RequeueAfter) for effect in effects)


def test_budget_for_other_reasons_does_not_block() -> None:
    effects = schedule_one(requested_binding({"m1": 4}), budget(min_available=5, reasons=("Drain",)))
    assert replicas_by_cluster(binding_writes(effects)[-1]) == {"m1": 2, "m2": 2}


@pytest.mark.parametrize(("surge", "held"), [("Never", 0), ("Allowed", 1)])
def test_budget_with_surge_allows_blocked_move_replacement_first(surge: str, held: int) -> None:
    at_once = deployment(annotations={well_known.MOVE_MODE: "AtOnce"})
    subject, clusters = requested_binding({"m1": 3, "m2": 1}), [ready_cluster("m1"), ready_cluster("m2")]
    limiting = budget(max_unavailable=0, surge=surge)
    view = FakeView([subject, *clusters, limiting], fleet=FixedFleet(clusters), raws=[at_once])
    after = binding_writes([effect for _, effect in schedule([subject], view)])[-1]
    assert replicas_by_cluster(after) == {"m1": 3 - held, "m2": 1 + held}
    assert sum(hold.replicas for hold in after.status.holds) == held


def test_two_workloads_of_one_batch_do_not_charge_same_budget_twice() -> None:
    clusters = [ready_cluster("m1"), ready_cluster("m2")]
    one, two = requested_binding({"m1": 4}), requested_binding({"m1": 4})
    two = two.but(
        metadata=two.metadata.but(name="other-deployment", uid="uid-other"),
        spec=two.spec.but(resource=two.spec.resource.but(name="other", uid="uid-two")),
    )
    view = FakeView(
        [one, two, *clusters, budget(max_concurrent=1)],
        fleet=FixedFleet(clusters),
        raws=[deployment(), deployment("other")],
    )
    effects = list(schedule([one, two], view))
    assert len([effect for _, effect in effects if isinstance(effect, DisruptionBudget)]) == 1
    assert [effect for subject, effect in effects if subject is two and not isinstance(effect, RequeueAfter)][1:] == []


def test_policy_edit_moves_at_once_unless_budget_covers_workload() -> None:
    edited = requested_binding(
        {"m1": 4}, reschedule_triggered_at=None, rule={"clusterAffinity": {"clusterNames": ["m2"]}}
    )
    plain = edited.but(
        metadata=edited.metadata.but(annotations=edited.metadata.annotations | {well_known.APPLIED_PLACEMENT: "{}"})
    )
    assert binding_writes(schedule_one(plain))[-1].status.holds == ()
    assert [
        hold.reason for hold in binding_writes(schedule_one(plain, budget(max_unavailable=1)))[-1].status.holds
    ] == ["PolicyChange"]


def test_draining_cluster_loses_only_its_share() -> None:
    draining = ready_cluster("m1").but(metadata=ready_cluster("m1").metadata.but(annotations={well_known.DRAIN: "now"}))
    placed = requested_binding({"m1": 2, "m2": 2}, reschedule_triggered_at=None)
    after = binding_writes(schedule_one(placed, draining, ready_cluster("m2")))[-1]
    assert replicas_by_cluster(after) == {"m2": 4}
    assert [(hold.cluster, hold.reason) for hold in after.status.holds] == [("m1", "Drain")]


def evicted_binding(*clusters: str) -> Binding:
    """Two replicas in m2, and two that were evicted from each of these clusters and are not placed again yet."""
    tasks = tuple(GracefulEvictionTask(from_cluster=name, replicas=2) for name in clusters)
    placed = requested_binding({"m2": 2}, reschedule_triggered_at=None, graceful_eviction_tasks=tasks)
    return placed.but(spec=placed.spec.but(replicas=2 + 2 * len(clusters)))


def failover_of(source: str, **targets: int) -> Move:
    moved = MovedObject(api_version="apps/v1", kind="Deployment", namespace="demo", name="web")
    to = tuple(MoveTarget(name=name, replicas=n) for name, n in targets.items())
    return Move(
        metadata=Meta(namespace="demo", name=f"web.{source}", resource_version="7"),
        spec=MoveSpec(object=moved, cause="ClusterFailover", from_=source, to=to, replicas=2),
    )


def moves_written(effects: list[Any]) -> list[Any]:
    return [
        (effect.name, [(to.name, to.replicas) for to in effect.spec.to])
        for effect in effects
        if isinstance(effect, Move)
    ]


def test_move_of_an_eviction_names_the_clusters_that_got_its_replicas() -> None:
    clusters = [ready_cluster(name) for name in ("m1", "m2", "m3")]
    effects = schedule_one(evicted_binding("m1"), failover_of("m1", m2=2), *clusters)
    after = binding_writes(effects)[-1]
    assert replicas_by_cluster(after) == {"m2": 2, "m3": 2}
    assert moves_written(effects) == [("web.m1", [("m3", 2)])]
    assert effects.index(after) < next(n for n, effect in enumerate(effects) if isinstance(effect, Move))


def test_move_of_an_eviction_whose_forecast_was_right_is_not_written_again() -> None:
    clusters = [ready_cluster(name) for name in ("m1", "m2", "m3")]
    assert moves_written(schedule_one(evicted_binding("m1"), failover_of("m1", m3=2), *clusters)) == []


def test_move_of_an_object_without_replicas_names_the_clusters_that_got_it() -> None:
    clusters = [ready_cluster(name) for name in ("m1", "m2", "m3")]
    evicted = evicted_binding("m1")
    evicted = evicted.but(spec=evicted.spec.but(replicas=0, clusters=(TargetCluster(name="m2"),)))
    move = failover_of("m1", m2=0)
    move = move.but(spec=move.spec.but(replicas=0))
    assert moves_written(schedule_one(evicted, move, *clusters)) == [("web.m1", [("m3", 0)])]


def test_moves_of_two_evictions_keep_their_forecasts() -> None:
    clusters = [ready_cluster(name) for name in ("m1", "m2", "m3", "m4")]
    moves = [failover_of("m1", m2=2), failover_of("m4", m2=2)]
    assert moves_written(schedule_one(evicted_binding("m1", "m4"), *moves, *clusters)) == []


def test_drain_without_feasible_cluster_is_reported_and_changes_nothing() -> None:
    draining = ready_cluster("m1").but(metadata=ready_cluster("m1").metadata.but(annotations={well_known.DRAIN: "now"}))
    (after,) = binding_writes(schedule_one(requested_binding({"m1": 4}, reschedule_triggered_at=None), draining))
    assert replicas_by_cluster(after) == {"m1": 4}
    assert [c.reason for c in after.status.conditions if c.type == "Stalled"] == ["NoFeasibleCluster"]


def test_no_move_starts_while_hold_exists() -> None:
    moving = requested_binding({"m1": 4}, status_holds=(HeldReplicas(cluster="m3", replicas=1),))
    assert binding_writes(schedule_one(moving)) == ()


def test_reverted_move_is_not_retried_immediately() -> None:
    reverted = Condition(type="Stalled", status="True", reason="MoveReverted", last_transition_time=NOON - MINUTE)
    draining = ready_cluster("m1").but(metadata=ready_cluster("m1").metadata.but(annotations={well_known.DRAIN: "now"}))
    resting = requested_binding({"m1": 2, "m2": 2}, reschedule_triggered_at=None, status_conditions=(reverted,))
    assert schedule_one(resting, draining, ready_cluster("m2")) == [RequeueAfter(540.0)]
    stamped = state.request(resting, NOON, "Rebalance")
    assert binding_writes(schedule_one(stamped, ready_cluster("m1"), ready_cluster("m3"))) != ()


class ReservedFleet(FixedFleet):
    """A fleet whose whole capacity is reserved."""

    def at(self, now: Any) -> Fleet[Cluster]:
        fleet = super().at(now)
        return fleet.reserve(np.arange(len(self.clusters)), {"pods": 110})


@pytest.mark.parametrize(("picture", "seconds"), [(FixedFleet, 300), (ReservedFleet, 12)])
def test_unschedulable_binding_is_retried_when_reservation_expires(picture: type[FixedFleet], seconds: int) -> None:
    clusters = [ready_cluster("m1")]
    dynamic = {**EVENLY, "weightPreference": {"dynamicWeight": "AvailableReplicas"}}
    subject = requested_binding({}, rule={"replicaScheduling": dynamic}, status_last_scheduled_time=None)
    subject = subject.but(spec=subject.spec.but(replicas=120))
    view = FakeView([subject, *clusters], fleet=picture(clusters), raws=[deployment()])
    view.next_lapse = NOON + 12 * SECOND if picture is ReservedFleet else None
    (again,) = [effect for _, effect in schedule([subject], view) if isinstance(effect, RequeueAfter)]
    assert seconds <= again.seconds < seconds + 1


def test_what_is_placed_is_reserved_until_healthy_with_overcommit_protection() -> None:
    dynamic = {**EVENLY, "weightPreference": {"dynamicWeight": "AvailableReplicas"}}
    subject = requested_binding({}, rule={"replicaScheduling": dynamic}, status_last_scheduled_time=None)
    subject = subject.but(spec=subject.spec.but(replicas=2))
    parts = (Component(name="manager", replicas=1), Component(name="worker", replicas=3))
    sets = subject.but(spec=subject.spec.but(replicas=0, replica_requirements=None, components=parts))

    def reservations(placed: Binding, settings: dict[str, bool]) -> list[ReserveCapacity]:
        clusters = [ready_cluster("m1")]
        view = FakeView(
            [placed, *clusters], profile=UPSTREAM, settings=settings, fleet=FixedFleet(clusters), raws=[deployment()]
        )
        return [effect for _, effect in schedule([placed], view) if isinstance(effect, ReserveCapacity)]

    assert reservations(subject, {}) == []
    for one, arriving in ((subject, (("m1", 2),)), (sets, (("m1", 1),))):
        (made,) = reservations(one, {"overcommit-protection": True, "components": True})
        assert made.until_healthy
        assert [reservation.arriving for reservation in made.reservations] == [arriving]


def placement_decision(*names: str) -> PlacementDecision:
    return PlacementDecision(
        metadata=Meta(
            name="p-decision-1", namespace="demo", labels={"cluster.open-cluster-management.io/placement": "p"}
        ),
        status=PlacementDecisionStatus(decisions=tuple(ClusterDecision(cluster_name=name) for name in names)),
    )


def binding_with_placement_ref(replicas: dict[str, int], *followed: str, division: str = "Weighted") -> Binding:
    scheduling = {**EVENLY, "replicaDivisionPreference": division}
    rule = {"replicaScheduling": scheduling, "placementRef": {"name": "p"}}
    return requested_binding(replicas, rule=rule, reschedule_triggered_at=None, status_placement_ref_clusters=followed)


FLEET = [ready_cluster("m1"), ready_cluster("m2"), ready_cluster("m3"), ready_cluster("m4")]


def test_cluster_added_to_placement_decision_gets_share_replacement_first() -> None:
    after = binding_writes(
        schedule_one(
            binding_with_placement_ref({"m1": 2, "m2": 2}, "m1", "m2"),
            placement_decision("m1", "m2", "m3", "m4"),
            *FLEET,
        )
    )[-1]
    assert replicas_by_cluster(after) == {"m1": 1, "m2": 1, "m3": 1, "m4": 1}
    assert [(hold.cluster, hold.reason) for hold in after.status.holds] == [
        ("m1", "ScoreChange"),
        ("m2", "ScoreChange"),
    ]
    assert after.status.placement_ref_clusters == ("m1", "m2", "m3", "m4")


def test_added_cluster_refused_by_budget_is_considered_again() -> None:
    subject = binding_with_placement_ref({"m1": 2, "m2": 2}, "m1", "m2")
    (after,) = binding_writes(
        schedule_one(subject, placement_decision("m1", "m2", "m3", "m4"), budget(max_concurrent=0), *FLEET)
    )
    assert (replicas_by_cluster(after), after.status.placement_ref_clusters) == ({"m1": 2, "m2": 2}, ("m1", "m2"))


def test_replaced_candidate_moves_only_its_share() -> None:
    subject = binding_with_placement_ref({"m1": 3, "m2": 1}, "m1", "m2", division="Aggregated")
    after = binding_writes(schedule_one(subject, placement_decision("m1", "m3"), *FLEET))[-1]
    assert replicas_by_cluster(after)["m1"] >= 3
    assert "m2" not in replicas_by_cluster(after)


def test_aggregated_binding_moves_to_added_cluster_only_if_fewer_clusters_are_needed() -> None:
    aggregated = binding_with_placement_ref({"m1": 4}, "m1", division="Aggregated")
    (after,) = binding_writes(schedule_one(aggregated, placement_decision("m1", "m2"), *FLEET))
    assert (replicas_by_cluster(after), after.status.placement_ref_clusters) == ({"m1": 4}, ("m1", "m2"))
    spread = binding_with_placement_ref({"m1": 2, "m2": 2}, "m1", "m2", division="Aggregated")
    assert (
        len(replicas_by_cluster(binding_writes(schedule_one(spread, placement_decision("m1", "m2", "m3"), *FLEET))[-1]))
        == 1
    )


def test_binding_without_recorded_candidates_records_them_and_stays() -> None:
    (after,) = binding_writes(
        schedule_one(binding_with_placement_ref({"m1": 2, "m2": 2}), placement_decision("m1", "m2", "m3"), *FLEET)
    )
    assert (replicas_by_cluster(after), after.status.placement_ref_clusters) == ({"m1": 2, "m2": 2}, ("m1", "m2", "m3"))


STATIC = [{"targetCluster": {"clusterNames": [name]}, "weight": 1} for name in ("m1", "m2")]


@pytest.mark.parametrize(
    ("placed", "ready", "then"),
    [
        ({"m1": 4}, {"m1": 4}, {"m1": 4}),
        ({"m1": 4}, {"m1": 3}, {"m1": 3, "m2": 1}),
        ({"m1": 4}, {}, {"m1": 2, "m2": 2}),
        ({"m1": 3, "m3": 1}, {"m1": 3, "m3": 1}, {"m1": 3, "m2": 1}),
    ],
)
def test_preserve_available_keeps_ready_replicas_despite_weights(placed: Any, ready: Any, then: Any) -> None:
    clusters = [ready_cluster("m1"), ready_cluster("m2"), ready_cluster("m3")]
    weighted = {**EVENLY, "weightPreference": {"staticWeightList": STATIC}}
    rule = {"clusterAffinity": {"clusterNames": ["m1", "m2"]}, "replicaScheduling": weighted}
    subject = state.request(requested_binding(placed, rule=rule), NOON, "Rebalance", "gentle")
    items = tuple(status_item(name, status={"readyReplicas": n}) for name, n in ready.items())
    subject = subject.but(status=subject.status.but(aggregated_status=items))
    job = WorkloadRebalancer(metadata=Meta(name="gentle"), spec=RebalancerSpec(strategy="PreserveAvailable"))
    view = FakeView([subject, *clusters, job], fleet=FixedFleet(clusters), raws=[deployment()])
    after = binding_writes([effect for _, effect in schedule([subject], view)])[-1]
    assert replicas_by_cluster(after) == then


def test_decision_without_its_status_is_reported_later() -> None:
    """The process ended after it had created the binding with its clusters."""
    subject = requested_binding({"m1": 1, "m2": 1}, rule={"replicaScheduling": EVENLY})
    subject = subject.but(
        spec=subject.spec.but(reschedule_triggered_at=None),
        status=BindingStatus(),
        metadata=subject.metadata.but(generation=1),
    )
    clusters = [ready_cluster("m1"), ready_cluster("m2")]
    view = FakeView([subject, *clusters], fleet=FixedFleet(clusters), raws=[deployment()])
    (after,) = binding_writes([effect for _, effect in schedule([subject], view)])
    assert after.spec == subject.spec
    assert is_condition_true(after.status.conditions, "Scheduled")
    assert after.status.scheduler_observed_generation == 1


@pytest.mark.parametrize(("profile", "triggered"), [(TRIMTAB, 1), (UPSTREAM, 0)])
def test_new_api_enablements_trigger_bindings(profile: Profile, triggered: int) -> None:
    subject = requested_binding({"m1": 1}, rule={"replicaScheduling": {"replicaSchedulingType": "Duplicated"}})
    known = ready_cluster("m2")
    joined = known.but(status=known.status.but(api_enablements=()))
    view = FakeView([subject, ready_cluster("m1"), known], profile=profile)
    assert len(list(affected_bindings(joined, known, view))) == triggered


@pytest.mark.parametrize(
    ("observed_before", "observed", "triggered"),
    [
        (2, 3, False),  # spec.clusters and status came in one write
        (2, 2, True),  # the status write is still to come, or another writer changed the spec
        (3, 3, True),  # the writer of the spec did not update the status
    ],
)
def test_spec_change_needs_scheduling_unless_scheduler_observed_it_in_same_write(
    observed_before: int, observed: int, triggered: bool
) -> None:
    before = binding(status_scheduler_observed_generation=observed_before)
    after = binding(clusters={"m1": 1}, status_scheduler_observed_generation=observed)
    assert needs_scheduling(before, after.but(metadata=after.metadata.but(generation=3))) is triggered


@pytest.mark.parametrize(
    ("profile", "rule", "requeues"),
    [
        (UPSTREAM, {"replicaSchedulingType": "Duplicated"}, [RequeueAfter(0.0)]),
        (UPSTREAM, EVENLY, []),
        (TRIMTAB, {"replicaSchedulingType": "Duplicated"}, []),
    ],
)
def test_upstream_profile_schedules_undivided_bindings_twice(profile: Profile, rule: Any, requeues: list[Any]) -> None:
    fresh = requested_binding({}, rule={"replicaScheduling": rule})
    first = schedule_one(fresh.but(spec=fresh.spec.but(replicas=2)), profile=profile)
    assert [effect for effect in first if isinstance(effect, RequeueAfter)] == requeues
    (after,) = binding_writes(first)
    again = schedule_one(after.but(metadata=after.metadata.but(generation=3)), profile=profile)
    assert [effect for effect in again if isinstance(effect, RequeueAfter)] == []
    reasons = [effect.reason for effect in again if isinstance(effect, RecordEvent)]
    assert reasons == ["ScheduleBindingSucceed"] * 2 * len(requeues)


def test_partial_move_requeues_immediately_to_report_the_refusal() -> None:
    limiting = budget(max_unavailable=1, surge="Never")
    at_once = {well_known.MOVE_MODE: "AtOnce"}
    subject, clusters = requested_binding({"m1": 4}), [ready_cluster("m1"), ready_cluster("m2")]
    view = FakeView([subject, *clusters, limiting], fleet=FixedFleet(clusters), raws=[deployment(annotations=at_once)])
    effects = [effect for _, effect in schedule([subject], view)]
    after = binding_writes(effects)[-1]
    assert (replicas_by_cluster(after), effects[-1]) == ({"m1": 3, "m2": 1}, RequeueAfter(0.0))
