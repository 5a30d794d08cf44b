"""Eviction tasks -> the old copy goes when the new one is healthy, at once, or when somebody says so."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from trimtab.api.kinds.work import Binding, GracefulEvictionTask
from trimtab.controllers import marks
from trimtab.controllers.contract import Again, Note, View, Wish, controller

TIMEOUT_SECONDS = 600


@controller(*marks.BINDINGS, writes=["spec.gracefulEvictionTasks"])
def evict(binding: Binding, view: View) -> Iterator[Wish]:
    tasks = binding.spec.graceful_eviction_tasks
    if not tasks or binding.metadata.deletion_timestamp is not None:
        return
    kept: list[GracefulEvictionTask] = []
    dropped: list[str] = []
    for task in tasks:
        if task.creation_timestamp is None:
            kept.append(task.but(creation_timestamp=view.now.replace(microsecond=0)))
        elif is_over(task, binding, view):
            dropped.append(task.from_cluster)
        else:
            kept.append(task)
    if tuple(kept) != tasks:
        yield binding.but(spec=binding.spec.but(graceful_eviction_tasks=tuple(kept)))
    source = (
        "cluster-resource-binding-graceful-eviction-controller"
        if marks.cluster_wide(binding)
        else "resource-binding-graceful-eviction-controller"
    )
    for cluster in dropped:
        for about in (marks.ref_of(binding), marks.template_ref(binding)):
            yield Note(about, "EvictWorkloadFromClusterSucceed", f"Evict from cluster {cluster} succeed.", source)
    waits = [(deadline(task, view) - view.now).total_seconds() for task in kept if task.suppress_deletion is None]
    if waits:
        yield Again(max(0.0, min(waits)) + 0.001)


def deadline(task: GracefulEvictionTask, view: View) -> datetime:
    default = int(marks.setting(view, "graceful-eviction-timeout", default=TIMEOUT_SECONDS))
    seconds = default if task.grace_period_seconds is None else task.grace_period_seconds
    return (task.creation_timestamp or view.now) + timedelta(seconds=seconds)


def is_over(task: GracefulEvictionTask, binding: Binding, view: View) -> bool:
    """Whether the old copy may go now."""
    if task.suppress_deletion is not None:
        return not task.suppress_deletion
    replaced = is_replaced(task, binding, view)
    if view.now > deadline(task, view):
        return replaced or not view.profile.evict_only_with_target or has_another_copy(task, binding)
    return replaced


def is_replaced(task: GracefulEvictionTask, binding: Binding, view: View) -> bool:
    """Every cluster of the current placement is healthy, and the placement answers the current wish."""
    if binding.status.scheduler_observed_generation != binding.metadata.generation:
        return False
    if not binding.spec.clusters and view.profile.evict_only_with_target:
        return False
    health = {item.cluster_name: item.health for item in binding.status.aggregated_status}
    return all(health.get(target.name) == "Healthy" for target in binding.spec.clusters)


def has_another_copy(task: GracefulEvictionTask, binding: Binding) -> bool:
    """Time is over and the new copy is not healthy: the old one may go only if it is not the last healthy one.

    It must have been replaced by something that is at least applied, and some other cluster must do well.
    """
    items = {item.cluster_name: item for item in binding.status.aggregated_status}
    own = items.get(task.from_cluster)
    others = [items[target.name] for target in binding.spec.clusters if target.name in items]
    if own is not None and own.health == "Healthy" and not any(item.health == "Healthy" for item in others):
        return False
    return any(item.applied for item in others)
