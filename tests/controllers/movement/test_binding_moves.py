"""Facts about moving bindings."""

from datetime import timedelta
from typing import Any

import pytest
from builders import NOON, binding, cluster, deployment, status_item
from views import FakeView

from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    InFlightDisruption,
    Move,
)
from trimtab.api.kinds.policy import Placement, ReplicaSchedulingStrategy
from trimtab.api.kinds.work import GracefulEvictionTask, HeldReplicas, StateBeforeMove, TargetCluster
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta
from trimtab.controllers.contract import WriteSequence
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.binding_moves import GENERATION_ANNOTATION, MoveCause, move_of_binding
from trimtab.decide.gate import Transfer

BEFORE = (TargetCluster(name="m1", replicas=4),)


def budget(**spec: Any) -> DisruptionBudget:
    return DisruptionBudget(
        metadata=Meta(name="b", namespace="demo"),
        spec=DisruptionBudgetSpec(target="Workloads", selector=LabelSelector()).but(**spec),
    )


def test_a_reschedule_request_is_read_back_until_another_timestamp_replaces_it() -> None:
    requested = state.request(binding(), NOON, "Rebalance", "job")
    assert binding_moves.reschedule_request_of(requested) == ("Rebalance", "job", "")
    foreign = requested.but(spec=requested.spec.but(reschedule_triggered_at=NOON + timedelta(seconds=1)))
    assert binding_moves.reschedule_request_of(foreign) == ("Rebalance", "", "")
    assert binding_moves.last_rebalancer_of(foreign) == "job"


def test_while_replicas_are_held_the_placement_before_the_move_counts() -> None:
    moving = binding(clusters={"m2": 4}, status_replacement=StateBeforeMove(before=BEFORE))
    assert binding_moves.placement_before_moves(moving) == {"m2": 4}
    held = moving.but(status=moving.status.but(holds=(HeldReplicas(cluster="m1", replicas=4),)))
    assert binding_moves.placement_before_moves(held) == {"m1": 4}


@pytest.mark.parametrize(
    ("status", "health", "ready", "expected"),
    [
        ({"readyReplicas": 2}, "Healthy", "True", 2),
        ({"readyReplicas": 2}, "Healthy", "False", 0),
        ({"replicas": 3}, "Healthy", "True", 0),
        ({}, "Healthy", "True", 0),
        ({"numberReady": 1}, "Unhealthy", "True", 1),
    ],
)
def test_ready_replicas_come_from_the_status_of_a_ready_cluster(
    status: Any, health: str, ready: str, expected: int
) -> None:
    subject = binding(clusters={"m1": 3}, status_aggregated_status=(status_item("m1", health, status=status),))
    view = FakeView([cluster("m1", ready=ready), subject], raws=[deployment()])
    assert binding_moves.ready_replicas_in(subject, "m1", view) == expected
    assert binding_moves.ready_replicas_by_cluster(subject, view) == {"m1": expected}
    assert binding_moves.availability_of(budget(), view).available == expected


def test_a_budget_applies_by_selector_reason_and_target() -> None:
    subject = binding(clusters={"m1": 3})
    for spec, applies in (
        ({}, True),
        ({"selector": LabelSelector(match_labels={"app": "other"})}, False),
        ({"reasons": ("Drain",)}, False),
        ({"target": "Pods"}, False),
    ):
        found = binding_moves.budgets_of(
            subject, FakeView([budget(**spec)], raws=[deployment(labels={"app": "web"})]), "Rebalance"
        )
        assert bool(found) is applies, spec


def test_a_budget_that_is_being_deleted_does_not_apply() -> None:
    subject, kept = binding(clusters={"m1": 3}), budget()
    deleted = kept.but(metadata=kept.metadata.but(deletion_timestamp=NOON))
    for one, applies in ((kept, True), (deleted, False)):
        assert bool(binding_moves.budgets_of(subject, FakeView([one], raws=[deployment()]), "Rebalance")) is applies


def test_granted_moves_without_a_hold_are_subtracted_from_the_available_replicas() -> None:
    subject = binding(clusters={"m1": 3}, status_aggregated_status=(status_item("m1", status={"readyReplicas": 3}),))
    entry = InFlightDisruption(object="Deployment/web", replicas=2, from_="m1", since=NOON)
    granted = budget().but(status=DisruptionBudgetStatus(in_flight=(entry,)))
    found = binding_moves.availability_of(granted, FakeView([cluster("m1"), subject], raws=[deployment()]))
    assert (found.desired, found.available) == (3, 1)


def test_replicas_that_are_not_placed_count_as_missing() -> None:
    """Otherwise a budget would allow a move while a failover waits for its decision."""
    rules = Placement(replica_scheduling=ReplicaSchedulingStrategy(replica_scheduling_type="Divided"))
    subject = binding(clusters={"m1": 3}, replicas=5, placement=rules)
    assert binding_moves.desired_replicas(subject) == 5


def test_a_move_is_named_after_the_generation_it_creates() -> None:
    move = move_of_binding(
        binding(clusters={"m1": 3}), Transfer("m1", 2, (("m2", 2),)), MoveCause("Drain", "me", "AtOnce"), NOON
    )
    assert (move.name, move.namespace) == ("web-deployment.3.m1", "demo")
    assert move.metadata.annotations == {GENERATION_ANNOTATION: "3"}
    assert move.metadata.labels == {"trimtab.dev/cause": "Drain"}
    assert (move.spec.by, move.spec.replicas, [(to.name, to.replicas) for to in move.spec.to]) == ("me", 2, [("m2", 2)])
    assert move.status.started == NOON
    long = move_of_binding(binding("w" * 240, clusters={"m1": 3}), Transfer("m1", 2), MoveCause("Drain", "me"), NOON)
    assert len(long.name) <= 253


def test_the_stalled_condition_keeps_its_transition_time_for_the_same_reason() -> None:
    first = binding_moves.with_stalled_condition(binding(), "MoveBlocked", "one", NOON)
    later = binding_moves.with_stalled_condition(first, "MoveBlocked", "two", NOON + timedelta(minutes=1))
    condition = binding_moves.stalled_condition_of(later)
    assert condition is not None
    assert (condition.message, condition.last_transition_time) == ("two", NOON)
    assert binding_moves.with_stalled_condition(binding(), "", "", NOON) == binding()


def test_the_stalled_condition_is_cleared_only_for_the_given_reasons() -> None:
    stalled = binding_moves.with_stalled_condition(binding(), "MoveBlocked", "", NOON)
    assert list(binding_moves.clear_stalled(stalled, ("EvictionBlocked",), NOON)) == []
    (cleared,) = binding_moves.clear_stalled(stalled, ("MoveBlocked",), NOON)
    assert binding_moves.stalled_condition_of(cleared) is None


def test_a_move_that_was_cancelled_before_it_began_begins_again() -> None:
    """A crash after the Move and before the binding: the log cancels it, and then the next attempt does begin."""
    cause = MoveCause("Rebalance", "trimtab-mover")
    first = move_of_binding(binding(clusters={"m1": 3}), Transfer("m1", 2), cause, NOON)
    assert list(binding_moves.log_start(first, FakeView())) == [first]
    late = NOON + timedelta(hours=1)
    cancelled = binding_moves.with_outcome(first, "Cancelled", "the move never started", late)
    again = move_of_binding(binding(clusters={"m1": 3}), Transfer("m1", 1), cause, late)
    status, reopened = reopening(again, cancelled)
    assert (status.status.outcome, status.status.started, status.spec.replicas) == ("", late, 2)
    assert (reopened.status.outcome, reopened.status.started, reopened.spec.replicas) == ("", late, 1)


def test_a_move_that_the_log_may_be_about_to_cancel_is_written_again_status_first() -> None:
    """Otherwise both would succeed: the log cancels the Move, and the replicas move without one in progress."""
    first = move_of_binding(binding(clusters={"m1": 3}), Transfer("m1", 2), MoveCause("Rebalance", "mover"), NOON)
    late = NOON + timedelta(hours=1)
    again = move_of_binding(binding(clusters={"m1": 3}), Transfer("m1", 1), MoveCause("Rebalance", "mover"), late)
    assert reopening(again, first) == (first.but(status=again.status), first.but(spec=again.spec, status=again.status))


def test_a_move_that_begins_again_for_another_cause_is_found_by_that_cause() -> None:
    first = move_of_binding(binding(clusters={"m1": 3}), Transfer("m1", 2), MoveCause("Rebalance", "mover"), NOON)
    again = move_of_binding(binding(clusters={"m1": 3}), Transfer("m1", 2), MoveCause("Drain", "mover"), NOON)
    _, reopened = reopening(again, first)
    assert (reopened.spec.cause, reopened.metadata.labels) == ("Drain", {"trimtab.dev/cause": "Drain"})


def reopening(again: Move, known: Move) -> tuple[Move, ...]:
    (written,) = binding_moves.log_start(again, FakeView([known]))
    assert isinstance(written, WriteSequence)
    return tuple(step for step in written.steps if isinstance(step, Move))


def test_an_object_that_is_not_applied_has_no_ready_replicas() -> None:
    stale = status_item("m1", status={"readyReplicas": 3}, applied=False)
    subject = binding(clusters={"m1": 3}, status_aggregated_status=(stale,))
    assert binding_moves.ready_replicas_in(subject, "m1", FakeView([cluster("m1")])) == 0


def test_a_request_is_over_when_its_timestamp_is_gone() -> None:
    requested = state.request(binding(), NOON, "Drain", "job")
    without_stamp = requested.but(spec=requested.spec.but(reschedule_triggered_at=None))
    assert binding_moves.reschedule_request_of(without_stamp) == ("Rebalance", "", "")


def test_a_request_of_no_rebalancer_names_none() -> None:
    assert binding_moves.last_rebalancer_of(state.request(binding(), NOON, "Drain")) == ""
    assert binding_moves.last_rebalancer_of(binding()) == ""


@pytest.mark.parametrize(
    ("held", "status", "expected"),
    [(True, {}, 4), (False, {}, 6), (False, {"replicas": 6}, 0), (False, {"numberReady": 5}, 5)],
)
def test_a_healthy_workload_that_counts_no_replicas_has_its_share(
    held: bool, status: dict[str, int], expected: int
) -> None:
    """While replicas are held, the share is that from before the move: the rest does not run yet."""
    holds = (HeldReplicas(cluster="m1", replicas=4),) if held else ()
    subject = binding(
        clusters={"m1": 6},
        status_holds=holds,
        status_replacement=StateBeforeMove(before=BEFORE),
        status_aggregated_status=(status_item("m1", status=status),),
    )
    custom = subject.but(spec=subject.spec.but(resource=subject.spec.resource.but(kind="Rollout")))
    assert binding_moves.ready_replicas_in(custom, "m1", FakeView([cluster("m1")])) == expected


@pytest.mark.parametrize(
    ("kind", "now", "evicted", "lost"),
    [
        ("Divided", {"m2": 3}, "m3", True),
        ("Divided", {"m2": 4}, "m3", False),
        ("Divided", {}, "m2", True),
        ("Duplicated", {}, "", True),
        ("Duplicated", {"m2": 4}, "m3", False),
    ],
)
def test_a_replacement_is_lost_when_the_placement_has_less_than_before_the_move(
    kind: str, now: dict[str, int], evicted: str, lost: bool
) -> None:
    tasks = (GracefulEvictionTask(from_cluster=evicted),) if evicted else ()
    subject = binding(
        clusters=now,
        replicas=4,
        placement=Placement(replica_scheduling=ReplicaSchedulingStrategy(replica_scheduling_type=kind)),
        graceful_eviction_tasks=tasks,
        status_holds=(HeldReplicas(cluster="m1", replicas=4),),
        status_replacement=StateBeforeMove(before=BEFORE),
    )
    assert binding_moves.is_replacement_lost(subject) is lost
    assert not binding_moves.is_replacement_lost(subject.but(status=subject.status.but(holds=())))


@pytest.mark.parametrize(
    ("decided", "expected"),
    [
        ({"m3": 4}, [("m3", 4)]),
        ({"m2": 1, "m3": 3}, [("m2", 1), ("m3", 3)]),
        ({"m2": 4}, None),
        ({"m3": 6}, None),
        ({"m3": 3}, None),
    ],
)
def test_the_move_of_an_eviction_names_the_clusters_that_get_exactly_its_replicas(
    decided: dict[str, int], expected: list[tuple[str, int]] | None
) -> None:
    cause = MoveCause("Drain", "me")
    move = move_of_binding(binding(clusters={"m1": 4}), Transfer("m1", 4, (("m2", 4),)), cause, NOON)
    evicted = binding(graceful_eviction_tasks=(GracefulEvictionTask(from_cluster="m1"),))
    changed = list(binding_moves.with_actual_targets(evicted, decided.items(), FakeView([move])))
    assert [[(to.name, to.replicas) for to in one.spec.to] for one in changed] == ([expected] if expected else [])
    assert not list(binding_moves.with_actual_targets(binding(), decided.items(), FakeView([move])))
