"""Decisions that take something away from a cluster."""

from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import pytest
from builders import MINUTE, NOON, binding, cluster, deployment, item, placement
from views import FakeView

from trimtab.api.kinds.cluster import APIEnablement, APIResource, Cluster, ResourceSummary
from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionBudgetSpec, Move
from trimtab.api.kinds.ocm import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from trimtab.api.kinds.rebalancer import RebalancerSpec, WorkloadRebalancer
from trimtab.api.kinds.work import Binding, Hold
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Condition, Meta
from trimtab.controllers import well_known
from trimtab.controllers.contract import Again, Note, Steps
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.propagation.schedule import affected_bindings, needs_a_look, schedule
from trimtab.decide.fleet import Fleet
from trimtab.plugins import filters, scores
from trimtab.registry import discover

SECOND = timedelta(seconds=1)
EVENLY = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}


class Picture:
    def __init__(self, clusters: list[Cluster]) -> None:
        discover(filters)
        discover(scores)
        self.clusters = clusters

    def at(self, now: Any, deciding: Any = None) -> Fleet[Cluster]:
        return Fleet.of(self.clusters, now=now)


def able(name: str, *taints: str) -> Cluster:
    enabled = (APIEnablement(group_version="apps/v1", resources=(APIResource(name="deployments", kind="Deployment"),)),)
    room = ResourceSummary(allocatable={"pods": "110", "cpu": "8"})
    found = cluster(name, *taints)
    return found.but(status=found.status.but(api_enablements=enabled, resource_summary=room))


def web(replicas: dict[str, int], *, rule: Any = None, **fields: Any) -> Binding:
    """Placed as the policy wants it, and asked to be placed afresh."""
    placed = placement(**(rule or {"replicaScheduling": EVENLY}))
    items = tuple(item(name, status={"readyReplicas": n}) for name, n in replicas.items())
    found = binding(
        clusters=replicas,
        placement=placed,
        status_aggregated_status=items,
        **{"reschedule_triggered_at": NOON, **fields},
    )
    marked = found.metadata.annotations | {well_known.APPLIED_PLACEMENT: msgspec.json.encode(placed).decode()}
    return found.but(metadata=found.metadata.but(annotations=marked))


def seen(subject: Binding, *things: Any, **options: Any) -> list[Any]:
    clusters = [thing for thing in things if isinstance(thing, Cluster)] or [able("m1"), able("m2")]
    others = [thing for thing in things if not isinstance(thing, Cluster)]
    view = FakeView([subject, *clusters, *others], parts={"fleet": Picture(clusters)}, raws=[deployment()], **options)
    return [wish for _, wish in schedule([subject], view)]


def written(wishes: list[Any]) -> tuple[Binding, ...]:
    for wish in wishes:
        if isinstance(wish, Steps):
            return wish.steps  # type: ignore[return-value]
        if isinstance(wish, Binding):
            return (wish,)
    return ()


def shares(subject: Binding) -> dict[str, int]:
    return {target.name: target.replicas for target in subject.spec.clusters}


def budget(**spec: Any) -> DisruptionBudget:
    return DisruptionBudget(
        metadata=Meta(name="b", namespace="demo", resource_version="2"),
        spec=DisruptionBudgetSpec(target="Workloads", selector=LabelSelector()).but(**spec),
    )


def test_what_leaves_is_held_before_the_placement_changes() -> None:
    first, last = written(seen(web({"m1": 4})))
    assert (shares(first), shares(last)) == ({"m1": 4}, {"m1": 2, "m2": 2})
    assert first.status.holds == last.status.holds
    (hold,) = last.status.holds
    assert (hold.cluster, hold.replicas, hold.reason) == ("m1", 2, "Rebalance")
    assert (hold.since, hold.until) == (NOON, NOON + 600 * SECOND)
    assert last.status.last_scheduled_time == NOON


def test_upstream_takes_it_away_at_once() -> None:
    (after,) = written(seen(web({"m1": 4}), profile=UPSTREAM))
    assert shares(after) == {"m1": 2, "m2": 2}
    assert after.status.holds == ()


def test_the_budget_is_charged_first_then_the_log_is_written() -> None:
    wishes = seen(web({"m1": 4}), budget(max_unavailable=1))
    order = [type(wish) for wish in wishes if isinstance(wish, DisruptionBudget | Move | Steps)]
    assert order == [DisruptionBudget, Move, Steps]
    (charged,) = [wish for wish in wishes if isinstance(wish, DisruptionBudget)]
    assert [(entry.object, entry.from_, entry.replicas) for entry in charged.status.in_flight] == [
        ("Deployment/web", "m1", 2)
    ]
    (entry,) = [wish for wish in wishes if isinstance(wish, Move)]
    assert (entry.spec.cause, entry.spec.from_, entry.spec.replicas) == ("Rebalance", "m1", 2)
    assert [use.name for use in entry.spec.budgets] == ["b"]


def test_a_budget_that_says_no_leaves_everything_and_the_stamp_pending() -> None:
    wishes = seen(web({"m1": 4}), budget(min_available=5))
    (after,) = written(wishes)
    assert shares(after) == {"m1": 4}
    assert after.status.last_scheduled_time == NOON - MINUTE
    assert [c.reason for c in after.status.conditions if c.type == "Stalled"] == ["MoveBlocked"]
    assert [wish.reason for wish in wishes if isinstance(wish, Note)] == ["MoveBlocked"]
    assert any(isinstance(wish, Again) for wish in wishes)


def test_a_budget_for_other_reasons_has_no_say() -> None:
    wishes = seen(web({"m1": 4}), budget(min_available=5, reasons=("Drain",)))
    assert shares(written(wishes)[-1]) == {"m1": 2, "m2": 2}


@pytest.mark.parametrize(("surge", "held"), [("Never", 0), ("Allowed", 1)])
def test_where_a_move_at_once_is_blocked_a_budget_may_offer_the_replacement_first(surge: str, held: int) -> None:
    hasty = deployment(annotations={well_known.MOVE_MODE: "AtOnce"})
    subject, clusters = web({"m1": 3, "m2": 1}), [able("m1"), able("m2")]
    careful = budget(max_unavailable=0, surge=surge)
    view = FakeView([subject, *clusters, careful], parts={"fleet": Picture(clusters)}, raws=[hasty])
    after = written([wish for _, wish in schedule([subject], view)])[-1]
    assert shares(after) == {"m1": 3 - held, "m2": 1 + held}
    assert sum(hold.replicas for hold in after.status.holds) == held


def test_two_workloads_of_one_batch_do_not_spend_the_same_budget_twice() -> None:
    clusters = [able("m1"), able("m2")]
    one, two = web({"m1": 4}), web({"m1": 4})
    two = two.but(
        metadata=two.metadata.but(name="other-deployment", uid="uid-other"),
        spec=two.spec.but(resource=two.spec.resource.but(name="other", uid="uid-two")),
    )
    view = FakeView(
        [one, two, *clusters, budget(max_concurrent=1)],
        parts={"fleet": Picture(clusters)},
        raws=[deployment(), deployment("other")],
    )
    wishes = list(schedule([one, two], view))
    assert len([wish for _, wish in wishes if isinstance(wish, DisruptionBudget)]) == 1
    assert [wish for subject, wish in wishes if subject is two and not isinstance(wish, Again)][1:] == []


def test_a_policy_edit_moves_at_once_unless_it_is_asked_otherwise() -> None:
    edited = web({"m1": 4}, reschedule_triggered_at=None, rule={"clusterAffinity": {"clusterNames": ["m2"]}})
    plain = edited.but(
        metadata=edited.metadata.but(annotations=edited.metadata.annotations | {well_known.APPLIED_PLACEMENT: "{}"})
    )
    assert written(seen(plain))[-1].status.holds == ()
    assert [hold.reason for hold in written(seen(plain, budget(max_unavailable=1)))[-1].status.holds] == [
        "PolicyChange"
    ]


def test_a_draining_cluster_loses_its_share_and_only_its_share() -> None:
    draining = able("m1").but(metadata=able("m1").metadata.but(annotations={well_known.DRAIN: "now"}))
    calm = web({"m1": 2, "m2": 2}, reschedule_triggered_at=None)
    after = written(seen(calm, draining, able("m2")))[-1]
    assert shares(after) == {"m2": 4}
    assert [(hold.cluster, hold.reason) for hold in after.status.holds] == [("m1", "Drain")]


def test_a_drain_without_another_place_is_told_and_changes_nothing() -> None:
    draining = able("m1").but(metadata=able("m1").metadata.but(annotations={well_known.DRAIN: "now"}))
    (after,) = written(seen(web({"m1": 4}, reschedule_triggered_at=None), draining))
    assert shares(after) == {"m1": 4}
    assert [c.reason for c in after.status.conditions if c.type == "Stalled"] == ["NoFeasibleCluster"]


def test_while_something_is_held_no_further_move_begins() -> None:
    moving = web({"m1": 4}, status_holds=(Hold(cluster="m3", replicas=1),))
    assert written(seen(moving)) == ()


def test_after_a_move_was_undone_the_same_is_not_tried_at_once() -> None:
    undone = Condition(type="Stalled", status="True", reason="MoveReverted", last_transition_time=NOON - MINUTE)
    draining = able("m1").but(metadata=able("m1").metadata.but(annotations={well_known.DRAIN: "now"}))
    resting = web({"m1": 2, "m2": 2}, reschedule_triggered_at=None, status_conditions=(undone,))
    assert seen(resting, draining, able("m2")) == [Again(540.0)]
    stamped = binding_moves.stamped(resting, NOON, "Rebalance")
    assert written(seen(stamped, able("m1"), able("m3"))) != ()


class Reserved(Picture):
    """A fleet all of whose room was given away a moment ago."""

    def at(self, now: Any, deciding: Any = None) -> Fleet[Cluster]:
        fleet = super().at(now, deciding)
        return fleet.reserve(np.arange(len(self.clusters)), {"pods": 110})


@pytest.mark.parametrize(("picture", "seconds"), [(Picture, 300), (Reserved, 12)])
def test_who_finds_no_room_asks_again_when_a_reservation_lapses(picture: type[Picture], seconds: int) -> None:
    clusters = [able("m1")]
    dynamic = {**EVENLY, "weightPreference": {"dynamicWeight": "AvailableReplicas"}}
    subject = web({}, rule={"replicaScheduling": dynamic}, status_last_scheduled_time=None)
    subject = subject.but(spec=subject.spec.but(replicas=120))
    view = FakeView([subject, *clusters], parts={"fleet": picture(clusters)}, raws=[deployment()])
    view.memory["fleet", "next lapse"] = NOON + 12 * SECOND if picture is Reserved else None
    (again,) = [wish for _, wish in schedule([subject], view) if isinstance(wish, Again)]
    assert seconds <= again.seconds < seconds + 1


def decided_for(*names: str) -> PlacementDecision:
    return PlacementDecision(
        metadata=Meta(
            name="p-decision-1", namespace="demo", labels={"cluster.open-cluster-management.io/placement": "p"}
        ),
        status=PlacementDecisionStatus(decisions=tuple(ClusterDecision(cluster_name=name) for name in names)),
    )


def follower(replicas: dict[str, int], *followed: str, division: str = "Weighted") -> Binding:
    scheduling = {**EVENLY, "replicaDivisionPreference": division}
    rule = {"replicaScheduling": scheduling, "placementRef": {"name": "p"}}
    return web(replicas, rule=rule, reschedule_triggered_at=None, status_followed=followed)


FLEET = [able("m1"), able("m2"), able("m3"), able("m4")]


def test_a_cluster_that_joins_the_decisions_gets_its_share_replacement_first() -> None:
    after = written(seen(follower({"m1": 2, "m2": 2}, "m1", "m2"), decided_for("m1", "m2", "m3", "m4"), *FLEET))[-1]
    assert shares(after) == {"m1": 1, "m2": 1, "m3": 1, "m4": 1}
    assert [(hold.cluster, hold.reason) for hold in after.status.holds] == [
        ("m1", "ScoreChange"),
        ("m2", "ScoreChange"),
    ]
    assert after.status.followed == ("m1", "m2", "m3", "m4")


def test_a_newcomer_that_the_budget_does_not_let_in_stays_new() -> None:
    subject = follower({"m1": 2, "m2": 2}, "m1", "m2")
    (after,) = written(seen(subject, decided_for("m1", "m2", "m3", "m4"), budget(max_concurrent=0), *FLEET))
    assert (shares(after), after.status.followed) == ({"m1": 2, "m2": 2}, ("m1", "m2"))


def test_one_that_goes_for_one_that_comes_moves_no_more_than_its_share() -> None:
    subject = follower({"m1": 3, "m2": 1}, "m1", "m2", division="Aggregated")
    after = written(seen(subject, decided_for("m1", "m3"), *FLEET))[-1]
    assert shares(after)["m1"] >= 3
    assert "m2" not in shares(after)


def test_what_is_gathered_goes_to_a_newcomer_only_where_that_needs_fewer_clusters() -> None:
    gathered = follower({"m1": 4}, "m1", division="Aggregated")
    (after,) = written(seen(gathered, decided_for("m1", "m2"), *FLEET))
    assert (shares(after), after.status.followed) == ({"m1": 4}, ("m1", "m2"))
    scattered = follower({"m1": 2, "m2": 2}, "m1", "m2", division="Aggregated")
    assert len(shares(written(seen(scattered, decided_for("m1", "m2", "m3"), *FLEET))[-1])) == 1


def test_who_never_said_what_he_followed_learns_it_and_stays() -> None:
    (after,) = written(seen(follower({"m1": 2, "m2": 2}), decided_for("m1", "m2", "m3"), *FLEET))
    assert (shares(after), after.status.followed) == ({"m1": 2, "m2": 2}, ("m1", "m2", "m3"))


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
def test_what_is_available_stays_where_it_is_whatever_the_weights_say(placed: Any, ready: Any, then: Any) -> None:
    clusters = [able("m1"), able("m2"), able("m3")]
    weighted = {**EVENLY, "weightPreference": {"staticWeightList": STATIC}}
    rule = {"clusterAffinity": {"clusterNames": ["m1", "m2"]}, "replicaScheduling": weighted}
    subject = binding_moves.stamped(web(placed, rule=rule), NOON, "Rebalance", "gentle")
    items = tuple(item(name, status={"readyReplicas": n}) for name, n in ready.items())
    subject = subject.but(status=subject.status.but(aggregated_status=items))
    job = WorkloadRebalancer(metadata=Meta(name="gentle"), spec=RebalancerSpec(strategy="PreserveAvailable"))
    view = FakeView([subject, *clusters, job], parts={"fleet": Picture(clusters)}, raws=[deployment()])
    after = written([wish for _, wish in schedule([subject], view)])[-1]
    assert shares(after) == then


@pytest.mark.parametrize(("profile", "looked_at"), [(TRIMTAB, 1), (UPSTREAM, 0)])
def test_a_cluster_that_turns_out_to_serve_something_is_considered(profile: Profile, looked_at: int) -> None:
    subject = web({"m1": 1}, rule={"replicaScheduling": {"replicaSchedulingType": "Duplicated"}})
    known = able("m2")
    joined = known.but(status=known.status.but(api_enablements=()))
    view = FakeView([subject, able("m1"), known], profile=profile)
    assert len(list(affected_bindings(joined, known, view))) == looked_at


@pytest.mark.parametrize(
    ("observed_before", "observed", "looked_at"),
    [
        (2, 3, False),  # the place and the verdict came in one step
        (2, 2, True),  # the verdict is still to come, or somebody else changed the spec
        (3, 3, True),  # whoever changed the spec here did not say so in the status
    ],
)
def test_a_change_of_the_spec_needs_a_look_unless_the_scheduler_said_in_the_same_step_that_it_has_seen_it(
    observed_before: int, observed: int, looked_at: bool
) -> None:
    before = binding(status_scheduler_observed_generation=observed_before)
    after = binding(clusters={"m1": 1}, status_scheduler_observed_generation=observed)
    assert needs_a_look(before, after.but(metadata=after.metadata.but(generation=3))) is looked_at


@pytest.mark.parametrize(
    ("profile", "rule", "looks"),
    [
        (UPSTREAM, {"replicaSchedulingType": "Duplicated"}, [Again(0.0)]),
        (UPSTREAM, EVENLY, []),
        (TRIMTAB, {"replicaSchedulingType": "Duplicated"}, []),
    ],
)
def test_upstream_tells_twice_of_what_is_not_divided(profile: Profile, rule: Any, looks: list[Any]) -> None:
    fresh = web({}, rule={"replicaScheduling": rule})
    first = seen(fresh.but(spec=fresh.spec.but(replicas=2)), profile=profile)
    assert [wish for wish in first if isinstance(wish, Again)] == looks
    (after,) = written(first)
    again = seen(after.but(metadata=after.metadata.but(generation=3)), profile=profile)
    assert [wish for wish in again if isinstance(wish, Again)] == []
    told = [wish.reason for wish in again if isinstance(wish, Note)]
    assert told == ["ScheduleBindingSucceed"] * 2 * len(looks)


def test_who_may_move_only_in_part_is_looked_at_again_at_once_and_told_why_the_rest_stays() -> None:
    careful = budget(max_unavailable=1, surge="Never")
    hasty = {well_known.MOVE_MODE: "AtOnce"}
    subject, clusters = web({"m1": 4}), [able("m1"), able("m2")]
    view = FakeView(
        [subject, *clusters, careful], parts={"fleet": Picture(clusters)}, raws=[deployment(annotations=hasty)]
    )
    wishes = [wish for _, wish in schedule([subject], view)]
    after = written(wishes)[-1]
    assert (shares(after), wishes[-1]) == ({"m1": 3, "m2": 1}, Again(0.0))
