"""Facts about moving bindings: placement before the move, ready replicas, budgets, Move objects, Stalled condition."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import unquote

from trimtab.api.cache_by_identity import cache_by_identity
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import (
    BudgetUse,
    DisruptionBudget,
    InFlightDisruption,
    Move,
    MovedObject,
    MoveSpec,
    MoveStatus,
    MoveTarget,
)
from trimtab.api.kinds.work import AggregatedStatusItem, Binding, ResourceBinding, TargetCluster
from trimtab.api.value import Condition, Meta
from trimtab.controllers import well_known
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.contract import Effect, Index, View, WriteSequence
from trimtab.controllers.ocm import workset_budgets
from trimtab.controllers.propagation.work_rendering import is_workload
from trimtab.decide.gate import Availability, Transfer

STALLED = "Stalled"
LOG_NAMESPACE = "default"
"""Namespace of the Move objects of cluster-wide objects."""
COUNTED_IN_REPLICAS = ("Deployment", "StatefulSet", "ReplicaSet")
MAX_IN_FLIGHT_TIME = timedelta(seconds=600)
MAX_COUNTED_BINDINGS = 4096
"""Bindings whose replicas are counted once: a budget over many workloads counts all of them whenever one changes."""


class RescheduleRequest(NamedTuple):
    """Why a fresh decision is requested, by which WorkloadRebalancer, and which user created that."""

    reason: str
    rebalancer: str = ""
    user: str = ""


def reschedule_request_of(binding: Binding) -> RescheduleRequest:
    """The request behind `rescheduleTriggeredAt`; a timestamp without our annotation comes from another tool."""
    words = binding.metadata.annotations.get(well_known.REQUESTED_BY, "").split()
    stamp = binding.spec.reschedule_triggered_at
    if len(words) < 2 or stamp is None or words[1] != stamp.isoformat():
        return RescheduleRequest("Rebalance")
    rebalancer, user = (*words[2:4], "", "")[:2]
    return RescheduleRequest(words[0], rebalancer, unquote(user))


def last_rebalancer_of(binding: Binding) -> str:
    """The rebalancer that last requested a fresh decision, pending or not."""
    words = binding.metadata.annotations.get(well_known.REQUESTED_BY, "").split()
    return words[2] if len(words) > 2 else ""


def placement_before_moves(binding: Binding) -> dict[str, int]:
    """Replicas per cluster; while replicas are held, the placement from before the move."""
    replacement = binding.status.replacement
    targets = replacement.before if binding.status.holds and replacement is not None else binding.spec.clusters
    return {target.name: target.replicas for target in targets}


def current_placement(binding: Binding) -> dict[str, int]:
    return {target.name: target.replicas for target in binding.spec.clusters}


def targets_of(shares: Mapping[str, int], *known: Iterable[TargetCluster]) -> tuple[TargetCluster, ...]:
    """The shares as targets sorted by name; an equal target from `known` is reused."""
    same = {(target.name, target.replicas): target for targets in known for target in targets}
    return tuple(same.get((name, n)) or TargetCluster(name=name, replicas=n) for name, n in sorted(shares.items()))


def status_by_cluster(binding: Binding) -> dict[str, AggregatedStatusItem]:
    return {item.cluster_name: item for item in binding.status.aggregated_status}


def is_cluster_ready(cluster: str, view: View) -> bool:
    found = view.get(Cluster, "", cluster)
    return found is not None and is_ready(found)


def ready_replicas_in(binding: Binding, cluster: str, view: View) -> int:
    """Ready replicas that a cluster reports; 0 for a cluster that is not ready."""
    return reported_by_cluster(binding).get(cluster, 0) if is_cluster_ready(cluster, view) else 0


def _count_reported(binding: Binding) -> dict[str, int]:
    before, current = placement_before_moves(binding), current_placement(binding)
    return {
        name: reported_replicas(binding, item, before.get(name) or current.get(name, 0))
        for name, item in status_by_cluster(binding).items()
    }


reported_by_cluster: Callable[[Binding], Mapping[str, int]] = cache_by_identity(
    _count_reported, max_entries=MAX_COUNTED_BINDINGS
)
"""The ready replicas that each cluster reports, ready or not."""


def reported_replicas(binding: Binding, item: AggregatedStatusItem, share: int) -> int:
    """The ready replicas that a cluster reports; a workload that counts none has its share if it is not unhealthy."""
    if not item.applied:
        return 0
    status = item.status or {}
    for field in ("readyReplicas", "numberReady"):
        if isinstance(status.get(field), int):
            return int(status[field])
    if "replicas" in status or binding.spec.resource.kind in COUNTED_IN_REPLICAS:
        return 0
    return share if item.health != "Unhealthy" else 0


def ready_replicas_by_cluster(binding: Binding, view: View) -> dict[str, int]:
    return {name: n if is_cluster_ready(name, view) else 0 for name, n in reported_by_cluster(binding).items()}


def budgets_of(binding: Binding, view: View, reason: str) -> list[DisruptionBudget]:
    """The budgets that apply to a move of this workload for this reason."""
    if not binding.namespace:
        return []
    template = view.raw(well_known.template_ref(binding))
    labels = well_known.labels_of(template) if template is not None else {}
    return [
        without_finished_moves(budget, view)
        for budget in view.all(DisruptionBudget, binding.namespace)
        if is_workload_budget(budget)
        and budget.spec.selector is not None
        and budget.spec.selector.matches(labels)
        and (not budget.spec.reasons or reason in budget.spec.reasons)
    ]


def without_finished_moves(budget: DisruptionBudget, view: View) -> DisruptionBudget:
    """The budget without moves that the log says are finished; the budget controller may not have reconciled yet."""
    unfinished = tuple(entry for entry in budget.status.in_flight if not has_finished(entry, budget, view))
    if unfinished == budget.status.in_flight:
        return budget
    return budget.but(status=budget.status.but(in_flight=unfinished))


def has_finished(entry: InFlightDisruption, budget: DisruptionBudget, view: View) -> bool:
    """Whether the log has an outcome for this move."""
    return any(move.status.outcome for move in moves_of_charge(entry, budget, view))


def moves_of_charge(entry: InFlightDisruption, budget: DisruptionBudget, view: View) -> Iterator[Move]:
    """The Move that the budget was charged for: it has the same start time."""
    kind, _, name = entry.object.partition("/")
    for move in view.by_index(MOVES_OF_OBJECT, f"{kind}/{budget.namespace}/{name}"):
        if (move.spec.from_, move.status.started) == (entry.from_, entry.since):
            yield move


def has_begun(move: Move, binding: Binding) -> bool:
    """Whether the binding has the generation that the move created; a crash may have prevented it."""
    return binding.metadata.generation >= int(move.metadata.annotations.get(GENERATION_ANNOTATION, "0"))


def is_workload_budget(budget: DisruptionBudget) -> bool:
    return budget.spec.target in ("", "Workloads") and budget.metadata.deletion_timestamp is None


def is_covered(binding: Binding, budget: DisruptionBudget, view: View) -> bool:
    """Whether this budget counts the replicas of the binding: it selects workloads by the labels of their templates."""
    selector = budget.spec.selector
    template = view.raw(well_known.template_ref(binding)) if selector is not None and is_workload(binding) else None
    return selector is not None and template is not None and selector.matches(well_known.labels_of(template))


def covered_bindings(budget: DisruptionBudget, view: View, object_: str) -> list[ResourceBinding]:
    """The bindings of one workload that this budget counts."""
    names = view.workload_counts(budget).covered_bindings(object_)
    found = (view.get(ResourceBinding, budget.namespace, name) for name in names)
    return [binding for binding in found if binding is not None]


def is_held(entry: InFlightDisruption, budget: DisruptionBudget, view: View) -> bool:
    """Whether the replicas of this move still run: the workload has a hold for them."""
    covered = covered_bindings(budget, view, entry.object)
    return any(hold.cluster == entry.from_ for binding in covered for hold in binding.status.holds)


def availability_of(budget: DisruptionBudget, view: View) -> Availability:
    """Replicas over all clusters: desired, and available minus granted moves that no status shows yet."""
    counts = view.workload_counts(budget)
    sets = workset_budgets.availability_of(budget, view)
    granted = sum(
        entry.replicas
        for entry in budget.status.in_flight
        if not workset_budgets.is_of_set(entry) and not is_held(entry, budget, view)
    )
    return Availability(counts.desired + sets.desired, max(0, counts.ready - granted) + sets.available)


def _count_desired(binding: Binding) -> int:
    placed = sum(placement_before_moves(binding).values())
    return max(placed, binding.spec.replicas) if is_divided(binding) else placed


desired_replicas: Callable[[Binding], int] = cache_by_identity(_count_desired, max_entries=MAX_COUNTED_BINDINGS)
"""Number of replicas that should exist over all clusters."""


def is_divided(binding: Binding) -> bool:
    """Whether the clusters share the replicas; otherwise each of them has all."""
    scheduling = binding.spec.placement.replica_scheduling if binding.spec.placement is not None else None
    return scheduling is not None and scheduling.replica_scheduling_type == "Divided"


def is_replacement_lost(binding: Binding) -> bool:
    """Whether the clusters that grew in a move were evicted in turn, and no decision has put anything in their place yet."""
    if not binding.status.holds or binding.status.replacement is None:
        return False
    targets, before = binding.spec.clusters, binding.status.replacement.before
    if not targets:
        return bool(before)
    if is_divided(binding):
        wanted = min(sum(target.replicas for target in before), binding.spec.replicas)
        return sum(target.replicas for target in targets) < wanted
    current, earlier = {target.name for target in targets}, {target.name for target in before}
    evicted = {task.from_cluster for task in binding.spec.graceful_eviction_tasks}
    return len(current) < len(earlier) and bool(evicted - earlier - current)


def object_of(binding: Binding) -> str:
    """The name of a workload in the status of budgets."""
    return f"{binding.spec.resource.kind}/{binding.spec.resource.name}"


def in_flight_entry(binding: Binding, transfer: Transfer, cause: str, by: str, now: datetime) -> InFlightDisruption:
    return InFlightDisruption(
        object=object_of(binding), replicas=transfer.replicas, from_=transfer.source, since=now, by=by, reason=cause
    )


class MoveCause(NamedTuple):
    """Why replicas move, which component moves them, and how."""

    name: str
    by: str
    mode: str = "AtOnce"
    message: str = ""
    budgets: tuple[DisruptionBudget, ...] = ()


def move_of_binding(binding: Binding, transfer: Transfer, cause: MoveCause, now: datetime) -> Move:
    """The Move of a binding, written before the move begins; its name has the binding generation that the move creates."""
    resource = binding.spec.resource
    moved = MovedObject(
        api_version=resource.api_version, kind=resource.kind, namespace=resource.namespace, name=resource.name
    )
    metadata = Meta(
        namespace=binding.namespace or LOG_NAMESPACE,
        name=move_name(binding, transfer.source),
        annotations={GENERATION_ANNOTATION: str(binding.metadata.generation + 1)},
    )
    return new_move(moved, metadata, transfer, cause, now)


def new_move(moved: MovedObject, metadata: Meta, transfer: Transfer, cause: MoveCause, now: datetime) -> Move:
    """A Move that starts now, for any kind of moved object."""
    return Move(
        metadata=metadata.but(labels={"trimtab.dev/cause": cause.name}),
        spec=MoveSpec(
            object=moved,
            cause=cause.name,
            by=cause.by,
            from_=transfer.source,
            to=tuple(MoveTarget(name=name, replicas=n) for name, n in transfer.to),
            replicas=transfer.replicas,
            mode=cause.mode,
            budgets=tuple(BudgetUse(name=b.name, namespace=b.namespace, disruptions=1) for b in cause.budgets),
            message=cause.message,
        ),
        status=MoveStatus(started=now),
    )


def log_start(move: Move, view: View) -> Iterator[Effect]:
    """Write the Move. One that is there from an attempt that crashed before the binding was written begins again.

    It is written even if it has no outcome, and its status first: the log may be about to cancel it, because it never
    began, and then one of the two writes has to fail.
    """
    known = view.get(Move, move.namespace, move.name)
    if known is None:
        yield move
    else:
        labelled = known.but(metadata=known.metadata.but(labels=known.metadata.labels | move.metadata.labels))
        yield WriteSequence((known.but(status=move.status), labelled.but(spec=move.spec, status=move.status)))


GENERATION_ANNOTATION = "trimtab.dev/binding-generation"
MAX_NAME_LENGTH = 253


def move_name(binding: Binding, source: str) -> str:
    text = f"{binding.name}.{binding.metadata.generation + 1}.{source}"
    if len(text) <= MAX_NAME_LENGTH:
        return text
    return f"{well_known.permanent_id(text)}.{binding.metadata.generation + 1}"


def objects_of_move(move: Move) -> Iterable[str]:
    about = move.spec.object
    return [f"{about.kind}/{about.namespace}/{about.name}"]


MOVES_OF_OBJECT = Index("moves of an object", Move, objects_of_move)


def moves_of(binding: Binding, view: View) -> list[Move]:
    resource = binding.spec.resource
    return list(view.by_index(MOVES_OF_OBJECT, f"{resource.kind}/{resource.namespace}/{resource.name}"))


def unfinished_moves(binding: Binding, view: View) -> list[Move]:
    return [move for move in moves_of(binding, view) if not move.status.outcome]


def with_actual_targets(binding: Binding, clusters: Iterable[tuple[str, int]], view: View) -> Iterator[Move]:
    """The move of an eviction with the clusters that get its replicas now: those that it began with were a forecast.

    Replicas of several evictions, or of a workload that is scaled as well, belong to no single move.
    """
    evicted = {task.from_cluster for task in binding.spec.graceful_eviction_tasks}
    moves = [move for move in unfinished_moves(binding, view) if move.spec.from_ in evicted] if evicted else []
    if len(moves) != 1:
        return
    had = current_placement(binding)
    gained = tuple(
        MoveTarget(name=name, replicas=n - had.get(name, 0)) for name, n in clusters if n > had.get(name, -1)
    )
    move = moves[0]
    if gained != move.spec.to and sum(target.replicas for target in gained) == move.spec.replicas:
        yield move.but(spec=move.spec.but(to=gained))


def moves_out_of_left_clusters(binding: Binding, view: View) -> dict[str, Move]:
    """The unfinished moves out of clusters that an eviction took out of the placement while replicas are held elsewhere.

    The placement from before the moves still has these clusters, so a decision that replaces their replicas looks as if
    it took them away.
    """
    if not binding.status.holds:
        return {}
    there = current_placement(binding).keys() | {hold.cluster for hold in binding.status.holds}
    return {move.spec.from_: move for move in unfinished_moves(binding, view) if move.spec.from_ not in there}


def with_outcome(move: Move, outcome: str, message: str, now: datetime) -> Move:
    return move.but(status=move.status.but(outcome=outcome, finished=now, message=message))


def with_stalled_condition(binding: Binding, reason: str, message: str, now: datetime) -> Binding:
    """The binding with a Stalled condition; an empty reason sets it to False."""
    conditions = binding.status.conditions
    old = find_condition(conditions, STALLED)
    if not reason and (old is None or old.status == "False"):
        return binding
    new = Condition(
        type=STALLED,
        status="True" if reason else "False",
        reason=reason or "Progressing",
        message=message,
        last_transition_time=now.replace(microsecond=0),
    )
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        new = new.but(last_transition_time=old.last_transition_time)
    kept = tuple(c for c in conditions if c.type != STALLED)
    return binding.but(status=binding.status.but(conditions=(*kept, new)))


def clear_stalled(binding: Binding, reasons: Iterable[str], now: datetime) -> Iterator[Binding]:
    """Yield the binding with Stalled=False if it was stalled for one of these reasons."""
    condition = stalled_condition_of(binding)
    if condition is not None and condition.reason in reasons:
        yield with_stalled_condition(binding, "", "", now)


def stalled_condition_of(binding: Binding) -> Condition | None:
    found = find_condition(binding.status.conditions, STALLED)
    return found if found is not None and found.status == "True" else None
