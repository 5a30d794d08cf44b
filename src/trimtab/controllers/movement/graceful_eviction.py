"""Removes eviction tasks when the old copy may be deleted: replaced, past its deadline, or allowed by a user."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import Binding, GracefulEvictionTask, PreviousPlacement, Work
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.clusters.departure import is_drained_to_leave
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import Effect, RecordEvent, RequeueAfter, Trigger, View, controller
from trimtab.controllers.movement import binding_moves, purge_guard
from trimtab.controllers.movement.taint_eviction import applied_tolerations, eviction_time, no_execute_taints
from trimtab.controllers.propagation.dispatch import binding_of_changed_work, works_of
from trimtab.controllers.propagation.execute import is_ready
from trimtab.controllers.settings import setting

OVERDUE_SECONDS = 15.0


def bindings_leaving_cluster(old: Cluster | None, new: Cluster | None, view: View) -> Iterable[Key]:
    """Wake bindings that are leaving a cluster when it recovers or its taints change: the eviction may be cancelled."""
    if old is None or new is None or (is_ready(old), old.spec.taints) == (is_ready(new), new.spec.taints):
        return
    for binding in well_known.bindings_in_cluster(view, new.name):
        if any(task.from_cluster == new.name for task in binding.spec.graceful_eviction_tasks):
            yield key_of(binding)


def concerns_evictions(old: Binding | None, new: Binding) -> bool:
    return bool(new.spec.graceful_eviction_tasks) or is_condition_true(new.status.conditions, purge_guard.UNCONFIRMED)


@controller(
    *well_known.BINDINGS,
    writes=[
        "spec.gracefulEvictionTasks",
        "spec.clusters",
        "status.schedulerObservingAffinityName",
        "status.previousPlacement",
        "status.conditions",
    ],
    predicate=concerns_evictions,
    triggers=[Trigger(Cluster, bindings_leaving_cluster), Trigger(Work, binding_of_changed_work)],
)
def graceful_eviction(binding: Binding, view: View) -> Iterator[Effect]:
    tasks = binding.spec.graceful_eviction_tasks
    unconfirmed = is_condition_true(binding.status.conditions, purge_guard.UNCONFIRMED)
    if binding.metadata.deletion_timestamp is not None or not (tasks or unconfirmed):
        return
    for task in tasks:
        if view.profile.recovery_cancels_eviction and is_cancelled(task, binding, view):
            yield with_eviction_cancelled(binding, task, view)
            text = f"Cluster {task.from_cluster} has recovered; the workload stays there."
            yield RecordEvent(well_known.ref_of(binding), "EvictionCancelled", text, "trimtab-mover")
            return
    kept: list[GracefulEvictionTask] = []
    dropped: list[str] = []
    for task in tasks:
        if task.creation_timestamp is None:
            kept.append(task.but(creation_timestamp=view.now.replace(microsecond=0)))
        elif is_finished(task, binding, view):
            dropped.append(task.from_cluster)
        else:
            kept.append(task)
    works = works_of(binding, view)
    after = purge_guard.with_purge_conditions(
        binding.but(spec=binding.spec.but(graceful_eviction_tasks=tuple(kept))), works, view
    )
    if after != binding:
        yield after
    source = (
        "cluster-resource-binding-graceful-eviction-controller"
        if well_known.is_cluster_scoped(binding)
        else "resource-binding-graceful-eviction-controller"
    )
    for cluster in dropped:
        for about in (well_known.ref_of(binding), well_known.template_ref(binding)):
            yield RecordEvent(
                about, "EvictWorkloadFromClusterSucceed", f"Evict from cluster {cluster} succeed.", source
            )
    waits = [(deadline(task, view) - view.now).total_seconds() for task in kept if task.suppress_deletion is None]
    waits += purge_guard.seconds_until_deadlines(purge_guard.unpurged_copies(after, works, view), view.now)
    if waits:
        # An overdue copy that is kept because it is the last healthy one is checked at intervals.
        yield RequeueAfter(min(wait if wait >= 0 else OVERDUE_SECONDS for wait in waits) + 0.001)


def is_cancelled(task: GracefulEvictionTask, binding: Binding, view: View) -> bool:
    """The cluster recovered before the replacement was ready, so the old copy stays."""
    cluster = view.get(Cluster, "", task.from_cluster)
    graceful = task.producer == well_known.TAINT_MANAGER and task.purge_mode not in ("Directly", "Immediately")
    if cluster is None or not graceful or not is_ready(cluster) or is_drained_to_leave(cluster, view.profile):
        return False
    due = eviction_time(no_execute_taints(cluster), applied_tolerations(binding) or (), view.now)
    return (due is None or due > view.now) and not is_replaced(task, binding, view)


def with_eviction_cancelled(binding: Binding, task: GracefulEvictionTask, view: View) -> Binding:
    """The cluster gets its share back from clusters whose replacements are not ready yet."""
    tasks = tuple(other for other in binding.spec.graceful_eviction_tasks if other != task)
    previous = binding.status.previous_placement
    if previous is not None and can_restore_previous(previous, task, tasks, binding):
        status = binding.status.but(scheduler_observing_affinity_name=previous.affinity_name, previous_placement=None)
        spec = binding.spec.but(clusters=previous.clusters, graceful_eviction_tasks=tasks)
        return binding.but(spec=spec, status=status)
    shares = binding_moves.current_placement(binding)
    wanted = task.replicas or 0
    scheduling = binding.spec.placement.replica_scheduling if binding.spec.placement is not None else None
    if scheduling is not None and scheduling.replica_scheduling_type == "Divided":
        wanted = min(wanted, max(0, binding.spec.replicas - sum(shares.values())))
        missing = (task.replicas or 0) - wanted
        for name in sorted(
            shares, key=lambda name: (binding_moves.ready_replicas_in(binding, name, view) - shares[name], name)
        ):
            taken = min(missing, max(0, shares[name] - binding_moves.ready_replicas_in(binding, name, view)))
            shares[name] -= taken
            missing -= taken
            wanted += taken
        shares = {name: n for name, n in shares.items() if n > 0}
    if wanted or not task.replicas:
        shares[task.from_cluster] = shares.get(task.from_cluster, 0) + wanted
    clusters = binding_moves.targets_of(shares, binding.spec.clusters)
    return binding.but(spec=binding.spec.but(clusters=clusters, graceful_eviction_tasks=tasks))


def can_restore_previous(
    previous: PreviousPlacement, task: GracefulEvictionTask, others: Sequence[GracefulEvictionTask], binding: Binding
) -> bool:
    """Whether the old placement can be restored: no other eviction, no cluster grew, no new cluster is healthy yet."""
    was = {target.name: target.replicas for target in previous.clusters}
    health = {name: item.health for name, item in binding_moves.status_by_cluster(binding).items()}
    grown = any(t.name in was and t.replicas > was[t.name] for t in binding.spec.clusters)
    arrived = any(t.name not in was and health.get(t.name) == "Healthy" for t in binding.spec.clusters)
    leaving = any(other.from_cluster in was for other in others)
    return was.get(task.from_cluster) == (task.replicas or 0) and not grown and not arrived and not leaving


def deadline(task: GracefulEvictionTask, view: View) -> datetime:
    default = int(setting(view, "graceful-eviction-timeout"))
    seconds = default if task.grace_period_seconds is None else task.grace_period_seconds
    return (task.creation_timestamp or view.now) + timedelta(seconds=seconds)


def is_finished(task: GracefulEvictionTask, binding: Binding, view: View) -> bool:
    """Whether the old copy may be deleted now."""
    if task.suppress_deletion is not None:
        return not task.suppress_deletion
    replaced = is_replaced(task, binding, view)
    if view.now > deadline(task, view):
        return replaced or not view.profile.evict_only_with_target or has_another_copy(task, binding)
    return replaced


def is_replaced(task: GracefulEvictionTask, binding: Binding, view: View) -> bool:
    """Every cluster of the current placement is healthy, and the placement was decided for the current generation."""
    if binding.status.scheduler_observed_generation != binding.metadata.generation:
        return False
    if not binding.spec.clusters and view.profile.evict_only_with_target:
        return False
    health = {item.cluster_name: item.health for item in binding.status.aggregated_status}
    return all(health.get(target.name) == "Healthy" for target in binding.spec.clusters)


def has_another_copy(task: GracefulEvictionTask, binding: Binding) -> bool:
    """The deadline passed and the new copy is not healthy: delete the old one only if it is not the last healthy one.

    The replacement must be at least applied. If the old copy is healthy, another cluster must be healthy, too.
    """
    items = {item.cluster_name: item for item in binding.status.aggregated_status}
    own = items.get(task.from_cluster)
    others = [items[target.name] for target in binding.spec.clusters if target.name in items]
    if own is not None and own.health == "Healthy" and not any(item.health == "Healthy" for item in others):
        return False
    return any(item.applied for item in others)
