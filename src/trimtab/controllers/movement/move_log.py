"""The log of moves: records the outcome of every Move and deletes old ones."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.ocm_work import ManifestWork
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, Effect, RequeueAfter, Trigger, View, controller
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.ocm import workset_budgets
from trimtab.interpret.names import binding_name

KEPT_PER_OBJECT = 50
KEPT_WITHOUT_OBJECT = timedelta(days=7)
START_TIMEOUT = timedelta(seconds=60)
HEALTHY_TIMEOUT = timedelta(hours=1)
"""How long a move without a hold may take to become healthy before it is recorded as Stalled."""


def moves_of_binding(old: Binding | None, new: Binding | None, view: View) -> Iterable[Key]:
    """The unfinished moves of a binding that may end now; all moves when it is deleted, so that they expire."""
    if new is not None:
        moves = binding_moves.unfinished_moves(new, view)
        for move in moves:
            goes_on = old is not None and was_in_progress(move, old) and is_in_progress(move, new)
            if not goes_on or len(moves) > 1:  # a newer move may supersede one in progress
                yield key_of(move)
    elif old is not None:
        yield from map(key_of, binding_moves.moves_of(old, view))


def was_in_progress(move: Move, old: Binding) -> bool:
    """Whether the move was in progress before a change of its binding."""
    return binding_moves.has_begun(move, old) and is_in_progress(move, old)


def moves_of_work(old: ManifestWork | None, new: ManifestWork | None, view: View) -> Iterable[Key]:
    """A ManifestWork of a replica set was deleted: wake the moves out of its cluster."""
    for subject in workset_budgets.sets_of(old, view) if old is not None and new is None else ():
        for move in view.by_index(
            binding_moves.MOVES_OF_OBJECT, f"{workset_budgets.KIND}/{subject.namespace}/{subject.name}"
        ):
            if not move.status.outcome:
                yield key_of(move)


@controller(
    Move,
    writes=["status", "Move"],
    triggers=[
        Trigger(ResourceBinding, moves_of_binding),
        Trigger(ClusterResourceBinding, moves_of_binding),
        Trigger(ManifestWork, moves_of_work),
    ],
)
def move_log(move: Move, view: View) -> Iterator[Effect]:
    if move.metadata.deletion_timestamp is not None:
        return
    if move.status.started is None:
        # A crash after the create and before the write of the status; without a start the move would never time out.
        yield move.but(status=move.status.but(started=move.metadata.creation_timestamp or view.now))
        return
    binding = binding_of(move, view)
    if move.status.outcome:
        yield from prune_log(move, binding, view)
    elif move.spec.object.kind == workset_budgets.KIND:
        yield from finish_workset_move(move, view)
    elif binding is None:
        yield binding_moves.with_outcome(move, "Cancelled", "the workload no longer exists", view.now)
    else:
        yield from finish_binding_move(move, binding, view)


def binding_of(move: Move, view: View) -> Binding | None:
    about = move.spec.object
    return well_known.binding_at(view, about.namespace, binding_name(about.kind, about.name))


def finish_workset_move(move: Move, view: View) -> Iterator[Effect]:
    """A move of a ManifestWorkReplicaSet is done when its work in the cluster no longer exists."""
    about = move.spec.object
    works = workset_budgets.works_by_set_name(about.namespace, about.name, view)
    found = next((work for work in works if work.namespace == move.spec.from_), None)
    age = view.now - (move.status.started or view.now)
    if found is None:
        yield binding_moves.with_outcome(move, "Done", "the work no longer exists", view.now)
    elif found.metadata.deletion_timestamp is None and age >= START_TIMEOUT:
        yield binding_moves.with_outcome(move, "Cancelled", "the move never started", view.now)
    else:
        yield RequeueAfter(START_TIMEOUT.total_seconds())


def finish_binding_move(move: Move, binding: Binding, view: View) -> Iterator[Effect]:
    """Record the outcome of an unfinished move; `replacement_hold` finishes the moves that have a hold."""
    age = view.now - (move.status.started or view.now)
    if not binding_moves.has_begun(move, binding):
        if age < START_TIMEOUT:
            yield RequeueAfter((START_TIMEOUT - age).total_seconds())
        else:
            yield binding_moves.with_outcome(move, "Cancelled", "the move never started", view.now)
    elif any(other is not move and is_newer(other, move) for other in binding_moves.unfinished_moves(binding, view)):
        yield binding_moves.with_outcome(move, "Superseded", "a newer move leaves the same cluster", view.now)
    elif is_in_progress(move, binding):
        return
    elif is_back_in_placement(move, binding):
        yield binding_moves.with_outcome(move, "Cancelled", f"{move.spec.from_} has its replicas again", view.now)
    elif is_placement_healthy(binding) and has_ready_targets(move, binding, view):
        yield binding_moves.with_outcome(move, "Done", "every cluster of the placement is healthy", view.now)
    elif age >= HEALTHY_TIMEOUT:
        yield binding_moves.with_outcome(move, "Stalled", "not every cluster of the placement became healthy", view.now)
    else:
        yield RequeueAfter((HEALTHY_TIMEOUT - age).total_seconds())


def is_newer(other: Move, move: Move) -> bool:
    generation = [int(m.metadata.annotations.get(binding_moves.GENERATION_ANNOTATION, "0")) for m in (other, move)]
    return other.spec.from_ == move.spec.from_ and generation[0] > generation[1]


def is_in_progress(move: Move, binding: Binding) -> bool:
    leaving = {hold.cluster for hold in binding.status.holds}
    return move.spec.from_ in leaving | {task.from_cluster for task in binding.spec.graceful_eviction_tasks}


def is_back_in_placement(move: Move, binding: Binding) -> bool:
    """A cancelled eviction: the cluster is in the placement again."""
    evicted = move.spec.cause in ("ClusterFailover", "ApplicationFailover")
    return evicted and move.spec.from_ in binding_moves.current_placement(binding)


def is_placement_healthy(binding: Binding) -> bool:
    items = binding_moves.status_by_cluster(binding)
    current = binding.status.scheduler_observed_generation == binding.metadata.generation
    return current and all(
        target.name in items and items[target.name].applied and items[target.name].health != "Unhealthy"
        for target in binding.spec.clusters
    )


def has_ready_targets(move: Move, binding: Binding, view: View) -> bool:
    """Whether the targets have all replicas ready: health alone may still refer to the smaller share from before."""
    shares = binding_moves.current_placement(binding)
    return all(binding_moves.ready_replicas_in(binding, to.name, view) >= shares.get(to.name, 0) for to in move.spec.to)


def prune_log(move: Move, binding: Binding | None, view: View) -> Iterator[Effect]:
    """Bound the log: a number of entries per workload, and a week for entries of deleted workloads."""
    if binding is None:
        remaining = (move.status.finished or view.now) + KEPT_WITHOUT_OBJECT - view.now
        yield RequeueAfter(remaining.total_seconds()) if remaining > timedelta() else Delete(move)
        return
    finished = sorted(
        (m for m in binding_moves.moves_of(binding, view) if m.status.outcome),
        key=lambda m: (m.status.started or view.now, m.name),
    )
    for old in finished[: max(0, len(finished) - KEPT_PER_OBJECT)]:
        yield Delete(old)
