"""The state of a move follows from the fields of the binding."""

from datetime import timedelta
from typing import Any

from builders import MINUTE, NOON, binding, status_item

from trimtab.api.kinds.work import Binding, GracefulEvictionTask, HeldReplicas, StateBeforeMove, TargetCluster
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.move_states import MoveState, movement_states
from trimtab.decide.gate import Transfer


def states_of(subject: Binding, **options: Any) -> dict[str, str]:
    return {one.cluster: one.state for one in movement_states(subject, NOON, **options)}


def moving(until: Any = NOON + MINUTE, **fields: Any) -> Binding:
    before = StateBeforeMove(before=(TargetCluster(name="m1", replicas=3),))
    holds = (HeldReplicas(cluster="m1", replicas=3, since=NOON, until=until, reason="Drain"),)
    return binding(clusters={"m2": 3}, status_holds=holds, status_replacement=before, **fields)


def test_a_settled_binding_has_no_moves() -> None:
    assert movement_states(binding(clusters={"m1": 3}), NOON) == []


def test_a_request_is_pending_until_the_decision_and_then_blocked_or_gone() -> None:
    asked = state.request(binding(clusters={"m1": 3}), NOON, "Rebalance", "job")
    assert movement_states(asked, NOON) == [MoveState("", "Requested", message="Rebalance")]
    blocked = binding_moves.with_stalled_condition(asked, "MoveBlocked", "no window is open", NOON)
    assert movement_states(blocked, NOON) == [MoveState("", "Blocked", message="no window is open")]
    answered = asked.but(status=asked.status.but(last_scheduled_time=NOON))
    assert movement_states(answered, NOON) == []


def test_held_replicas_surge_are_handed_over_or_are_reverted() -> None:
    assert movement_states(moving(), NOON) == [MoveState("m1", "Surging", 3, "Drain")]
    arrived = moving(status_aggregated_status=(status_item("m2", status={"readyReplicas": 3}),))
    assert states_of(arrived) == {"m1": "HandingOver"}
    assert states_of(arrived, ready={}) == {"m1": "Surging"}
    assert states_of(moving(until=NOON)) == {"m1": "Reverting"}


def test_an_evicted_copy_surges_until_every_cluster_is_healthy() -> None:
    tasks = (GracefulEvictionTask(from_cluster="m1", replicas=3, purge_mode="Gracefully", reason="TaintUntolerated"),)
    evicted = binding(clusters={"m2": 3}, graceful_eviction_tasks=tasks)
    assert states_of(evicted) == {"m1": "Surging"}
    healthy = evicted.but(status=evicted.status.but(aggregated_status=(status_item("m2"),)))
    assert states_of(healthy) == {"m1": "HandingOver"}
    stale = healthy.but(status=healthy.status.but(scheduler_observed_generation=1))
    assert states_of(stale) == {"m1": "Surging"}
    direct = binding(clusters={"m2": 3}, graceful_eviction_tasks=(tasks[0].but(purge_mode="Directly"),))
    assert states_of(direct) == {"m1": "Purging"}


def test_a_copy_outside_of_the_placement_is_purged() -> None:
    subject = binding(clusters={"m2": 3}, status_aggregated_status=(status_item("m1"), status_item("m2")))
    assert states_of(subject) == {"m1": "Purging"}
    reverted = binding_moves.with_stalled_condition(subject, "MoveReverted", "not ready in time", NOON)
    assert states_of(reverted) == {"m1": "Reverting"}


def test_the_log_tells_which_moves_are_done() -> None:
    subject = binding(clusters={"m2": 3})
    cause = binding_moves.MoveCause("Drain", "trimtab-mover")
    move = binding_moves.move_of_binding(subject, Transfer("m1", 3), cause, NOON)
    assert states_of(subject, moves=[move]) == {}
    done = binding_moves.with_outcome(move, "Done", "", NOON + timedelta(seconds=9))
    assert movement_states(subject, NOON, moves=[done]) == [MoveState("m1", "Done", 3, "Done")]
