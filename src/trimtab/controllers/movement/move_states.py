"""The state of every move of a binding, derived from the fields that carry its placement (see `state.py`)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.work import Binding
from trimtab.controllers import well_known
from trimtab.controllers.movement import binding_moves

REQUESTED, BLOCKED, SURGING = "Requested", "Blocked", "Surging"
HANDING_OVER, PURGING, REVERTING, DONE = "HandingOver", "Purging", "Reverting", "Done"
MOVE_REVERTED = "MoveReverted"


class MoveState(NamedTuple):
    """The state of one move."""

    cluster: str
    """The cluster that is left; empty while it is not decided."""
    state: str
    replicas: int = 0
    message: str = ""


def movement_states(
    binding: Binding, now: datetime, *, ready: Mapping[str, int] | None = None, moves: Iterable[Move] = ()
) -> list[MoveState]:
    """The moves of a binding, sorted by cluster; `ready` are the ready replicas of clusters that are ready.

    Without `ready`, what the members reported last is counted. With the Moves of the log, finished ones are listed, too.
    """
    counted = reported_ready(binding) if ready is None else ready
    found = [*_moves_with_holds(binding, counted, now), *_moves_with_tasks(binding)]
    leaving = {one.cluster for one in found}
    found += [one for one in _purged_copies(binding) if one.cluster not in leaving]
    found += _states_before_begin(binding)
    active = {one.cluster for one in found}
    last = {move.spec.from_: move for move in sorted(moves, key=lambda move: (move.status.started or now, move.name))}
    found += [
        MoveState(name, DONE, move.spec.replicas, move.status.outcome)
        for name, move in last.items()
        if move.status.outcome and name not in active
    ]
    return sorted(found)


def reported_ready(binding: Binding) -> dict[str, int]:
    """The ready replicas that each member reported last."""
    counts = {
        name: (item.status or {}).get("readyReplicas")
        for name, item in binding_moves.status_by_cluster(binding).items()
    }
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def _moves_with_holds(binding: Binding, ready: Mapping[str, int], now: datetime) -> Iterable[MoveState]:
    replacement = binding.status.replacement
    before = {target.name: target.replicas for target in replacement.before} if replacement is not None else {}
    were_ready = {target.name: target.replicas for target in replacement.ready} if replacement is not None else {}
    gains = {t.name: t.replicas - before.get(t.name, 0) for t in binding.spec.clusters}
    growing = {name: gain for name, gain in gains.items() if gain > 0}
    arrived = sum(max(0, ready.get(name, 0) - were_ready.get(name, 0)) for name in growing)
    leaving = sum(hold.replicas for hold in binding.status.holds)
    is_replaced = bool(growing) and arrived >= min(leaving, sum(growing.values()))
    for hold in binding.status.holds:
        is_late = hold.until is not None and now >= hold.until
        state = HANDING_OVER if is_replaced else REVERTING if is_late else SURGING
        yield MoveState(hold.cluster, state, hold.replicas, hold.reason)


def _moves_with_tasks(binding: Binding) -> Iterable[MoveState]:
    health = {name: item.health for name, item in binding_moves.status_by_cluster(binding).items()}
    placed = binding.spec.clusters
    is_healthy = bool(placed) and all(health.get(target.name) == "Healthy" for target in placed)
    is_decided = binding.status.scheduler_observed_generation == binding.metadata.generation
    for task in binding.spec.graceful_eviction_tasks:
        if task.purge_mode in well_known.IMMEDIATE_PURGE_MODES:
            state = PURGING
        else:
            state = HANDING_OVER if is_healthy and is_decided else SURGING
        yield MoveState(task.from_cluster, state, task.replicas or 0, task.reason)


def _purged_copies(binding: Binding) -> Iterable[MoveState]:
    """Copies that still exist in clusters to which nothing belongs any more."""
    stalled = binding_moves.stalled_condition_of(binding)
    is_reverted = stalled is not None and stalled.reason == MOVE_REVERTED
    placed = binding_moves.current_placement(binding)
    required = {target.name for snapshot in binding.spec.required_by for target in snapshot.clusters}
    for name in binding_moves.status_by_cluster(binding):
        if name not in placed and name not in required:
            yield MoveState(name, REVERTING if is_reverted else PURGING)


def _states_before_begin(binding: Binding) -> Iterable[MoveState]:
    """A move that has not begun: it is requested, or something does not allow it."""
    stalled = binding_moves.stalled_condition_of(binding)
    if stalled is not None and stalled.reason != MOVE_REVERTED:
        yield MoveState("", BLOCKED, message=stalled.message)
        return
    stamp, last = binding.spec.reschedule_triggered_at, binding.status.last_scheduled_time
    if stamp is not None and (last is None or stamp > last):
        yield MoveState("", REQUESTED, message=binding_moves.reschedule_request_of(binding).reason)
