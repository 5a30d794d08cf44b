"""Held replicas: released when their replacement is ready, and the move is reverted when it is not ready in time."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding, StateBeforeMove
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.contract import Effect, Index, RecordEvent, RequeueAfter, Trigger, View, controller
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.freeze import current_freeze, moving_bindings
from trimtab.controllers.movement.gate import SOURCE
from trimtab.controllers.propagation.aggregate import status_item
from trimtab.controllers.propagation.dispatch import works_of
from trimtab.controllers.propagation.work_rendering import is_workload

ORPHANED_HOLD_TIMEOUT = timedelta(seconds=30)
"""A hold is written just before its placement; one whose placement has not changed by then is left from a crash."""


HELD = "held"


def hold_states(binding: Binding) -> Iterable[str]:
    return (HELD,) if binding.status.holds else ()


HELD_BINDINGS = Index("bindings with holds", ResourceBinding, hold_states)
HELD_CLUSTER_BINDINGS = Index("cluster bindings with holds", ClusterResourceBinding, hold_states)


def bindings_with_holds(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """A cluster changed readiness: wake bindings with holds, because their ready replicas count differently now."""
    if old is None or (new is not None and is_ready(old) == is_ready(new)):
        return
    for binding in (*view.by_index(HELD_BINDINGS, HELD), *view.by_index(HELD_CLUSTER_BINDINGS, HELD)):
        yield key_of(binding)


def concerns_holds(old: Binding | None, new: Binding) -> bool:
    return bool(new.status.holds)


@controller(
    *well_known.BINDINGS,
    writes=[
        "spec.clusters",
        "status.holds",
        "status.replacement",
        "status.conditions[Stalled]",
        "status.lastScheduledTime",
        "status.schedulerObservingAffinityName",
        "status.previousPlacement",
        "status.placementRefClusters",
        "Move.status",
    ],
    predicate=concerns_holds,
    triggers=[Trigger(Cluster, bindings_with_holds), Trigger(DisruptionPolicy, moving_bindings)],
    resumes=True,
)
def replacement_hold(binding: Binding, view: View) -> Iterator[Effect]:
    holds, replacement = binding.status.holds, binding.status.replacement
    if not holds or binding.metadata.deletion_timestamp is not None:
        return
    if replacement is None:
        yield state.abandon(binding)
        return
    if binding_moves.current_placement(binding) == binding_moves.placement_before_moves(binding):
        age = view.now - min(hold.since or view.now for hold in holds)
        if age >= ORPHANED_HOLD_TIMEOUT:
            yield state.abandon(binding)
        else:
            yield RequeueAfter((ORPHANED_HOLD_TIMEOUT - age).total_seconds())
        return
    if current_freeze(view) is not None:
        return
    due = min((hold.until for hold in holds if hold.until is not None), default=view.now)
    if is_replacement_ready(binding, replacement, view):
        yield from release_holds(binding, "its replacement is ready", view)
    elif view.now < due:
        yield RequeueAfter((due - view.now).total_seconds() + 0.001)
    elif any(binding_moves.is_cluster_ready(hold.cluster, view) for hold in holds):
        yield from revert_move(binding, replacement, view)
    else:
        yield from release_holds(binding, "the cluster that held the replicas is no longer ready", view)


def is_replacement_ready(binding: Binding, replacement: StateBeforeMove, view: View) -> bool:
    """As many replicas as leave, at most as many as are added, became ready in the clusters that grow.

    Both the status of the binding and the Works must show them. The status of the binding is older: it may still have a copy
    of an earlier move that was deleted meanwhile.
    """
    if binding_moves.is_replacement_lost(binding):
        return False
    before = {target.name: target.replicas for target in replacement.before}
    gains = {t.name: t.replicas - before.get(t.name, 0) for t in binding.spec.clusters}
    states = (binding, with_status_of_works(binding, view))
    if not is_workload(binding):
        added = [name for name in gains if name not in before]
        items = [binding_moves.status_by_cluster(state) for state in states]
        return all(name in item and item[name].applied for name in added for item in items)
    were_ready = {target.name: target.replicas for target in replacement.ready}
    growing = {name: gain for name, gain in gains.items() if gain > 0}
    ready = {name: min(binding_moves.ready_replicas_in(state, name, view) for state in states) for name in growing}
    arrived = sum(max(0, n - were_ready.get(name, 0)) for name, n in ready.items())
    leaving = sum(hold.replicas for hold in binding.status.holds)
    return arrived >= min(leaving, sum(growing.values()))


def with_status_of_works(binding: Binding, view: View) -> Binding:
    """The binding with the status that its Works report now."""
    works = [work for work in works_of(binding, view) if work.metadata.deletion_timestamp is None]
    items = tuple(status_item(work, binding, view) for work in works)
    return binding.but(status=binding.status.but(aggregated_status=items))


def release_holds(binding: Binding, reason: str, view: View) -> Iterator[Effect]:
    """Let the old replicas be deleted."""
    held = {hold.cluster for hold in binding.status.holds}
    for move in binding_moves.unfinished_moves(binding, view):
        if move.spec.from_ in held:
            yield binding_moves.with_outcome(move, "Done", reason, view.now)
    yield state.finish(binding)
    names = ", ".join(sorted(held))
    yield RecordEvent(
        well_known.ref_of(binding), "MoveFinished", f"The replicas held in {names} are released: {reason}.", SOURCE
    )


def revert_move(binding: Binding, replacement: StateBeforeMove, view: View) -> Iterator[Effect]:
    """The timeout passed and the replacement is not ready: restore the placement and set the Stalled condition.

    A cluster from which the workload was evicted since then is not restored.
    """
    held = {hold.cluster for hold in binding.status.holds}
    shares = {target.name: target.replicas for target in replacement.before}
    missing = sorted({t.name for t in binding.spec.clusters if t.replicas > shares.get(t.name, 0)})
    why = f"the replacement in {', '.join(missing) or 'no cluster'} was not ready in time; the move is reverted"
    for move in binding_moves.unfinished_moves(binding, view):
        if move.spec.from_ in held:
            yield binding_moves.with_outcome(move, "Reverted", why, view.now)
    yield binding_moves.with_stalled_condition(
        state.revert(binding, replacement, view.now),
        "MoveReverted",
        f"{binding.status.holds[0].reason}: {why}",
        view.now,
    )
    yield RecordEvent(well_known.ref_of(binding), "MoveReverted", f"{why}.".capitalize(), SOURCE, "Warning")
