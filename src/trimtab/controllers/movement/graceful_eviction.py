"""Removes eviction tasks when the old copy may be deleted: replaced, past its deadline, or allowed by a user."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.kinds.work import Binding, GracefulEvictionTask, Work
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.clusters.departure import is_drained_to_leave
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import Effect, RecordEvent, RequeueAfter, Trigger, View, controller
from trimtab.controllers.movement import binding_moves, purge_guard, state
from trimtab.controllers.movement.freeze import current_freeze, moving_bindings
from trimtab.controllers.movement.taint_eviction import applied_tolerations, eviction_time, no_execute_taints
from trimtab.controllers.propagation.dispatch import binding_of_changed_work, works_of
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


def evicted_binding_of_work(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    """A Work was deleted or edited: its binding, if evictions are in progress or not confirmed."""
    for key in binding_of_changed_work(old, new, view):
        binding = well_known.binding_at(view, key.namespace, key.name)
        if binding is not None and concerns_evictions(None, binding):
            yield key


@controller(
    *well_known.BINDINGS,
    writes=[
        "spec.gracefulEvictionTasks",
        "spec.clusters",
        "status.schedulerObservingAffinityName",
        "status.previousPlacement",
        "status.conditions[Stalled]",
        "status.conditions[PurgeUnconfirmed]",
    ],
    predicate=concerns_evictions,
    triggers=[
        Trigger(Cluster, bindings_leaving_cluster),
        Trigger(Work, evicted_binding_of_work),
        Trigger(DisruptionPolicy, moving_bindings),
    ],
    resumes=True,
)
def graceful_eviction(binding: Binding, view: View) -> Iterator[Effect]:
    tasks = binding.spec.graceful_eviction_tasks
    unconfirmed = is_condition_true(binding.status.conditions, purge_guard.UNCONFIRMED)
    if binding.metadata.deletion_timestamp is not None or not (tasks or unconfirmed):
        return
    frozen = bool(tasks) and current_freeze(view) is not None
    for task in () if frozen else tasks:
        if view.profile.recovery_cancels_eviction and is_cancelled(task, binding, view):
            yield state.cancel(binding, task, binding_moves.ready_replicas_by_cluster(binding, view))
            text = f"Cluster {task.from_cluster} has recovered; the workload stays there."
            yield RecordEvent(well_known.ref_of(binding), "EvictionCancelled", text, "trimtab-mover")
            return
    kept: list[GracefulEvictionTask] = []
    dropped: list[str] = []
    for task in tasks:
        if task.creation_timestamp is None:
            kept.append(task.but(creation_timestamp=view.now.replace(microsecond=0)))
        elif is_finished(task, binding, view) and not (frozen and task.suppress_deletion is None):
            dropped.append(task.from_cluster)
        else:
            kept.append(task)
    works = works_of(binding, view)
    after = purge_guard.with_purge_conditions(state.finish_tasks(binding, kept), works, view)
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


def deadline(task: GracefulEvictionTask, view: View) -> datetime:
    """When the grace period is over; the task was created within the second that its time names."""
    default = int(setting(view, "graceful-eviction-timeout"))
    seconds = default if task.grace_period_seconds is None else task.grace_period_seconds
    created = view.now if task.creation_timestamp is None else task.creation_timestamp + timedelta(seconds=1)
    return created + timedelta(seconds=seconds)


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
