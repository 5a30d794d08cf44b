"""Empties a Cluster that is drained or deleted, reports what blocks it, and removes a deleted one when it is empty.

A deleted Cluster keeps its finalizer while anything uses it. The scheduler moves its workloads out as in a drain: through
the disruption gate, replacement first. Until then its Works stay, so nothing that serves is deleted. The condition
`Drained` of the Cluster says what remains and why. When nothing remains, the other Works are deleted, then the execution
namespace with the Works of namespaces, and last the finalizer is removed.

With the annotation `trimtab.dev/force-leave` nothing is waited for: `forced_departure` takes the cluster out of the
bindings, and what belongs to no binding is deleted here.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.ocm_work import ManifestWork
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding, Work
from trimtab.api.value import Condition, Key
from trimtab.controllers import well_known
from trimtab.controllers.clusters.departure import (
    DRAINED,
    is_any_emptied,
    is_drained,
    is_forced_out,
    is_terminating,
)
from trimtab.controllers.clusters.health import cluster_of_deleted_namespace, unjoin
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.conditions import find_condition, with_condition
from trimtab.controllers.contract import Delete, Effect, Index, RecordEvent, RequeueAfter, Trigger, View, controller
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.ocm import workset_budgets
from trimtab.controllers.propagation.scheduling.scope import SCHEDULER_NAMES

SOURCE = "trimtab-mover"
POLL_SECONDS = 10.0
MAX_LISTED = 3
BLOCKED, DRAINING, EMPTY, FORCED = "Blocked", "Draining", "Empty", "Forced"
EMPTY_MESSAGE = "nothing is left in the cluster"
UNANSWERED_MESSAGE = "nothing needs the cluster any more; it does not answer, so copies in it stay until it joins again"


def clusters_in_use(binding: Binding) -> set[str]:
    """The clusters in which the binding is placed, held or being evicted."""
    names = {target.name for target in binding.spec.clusters}
    names |= {task.from_cluster for task in binding.spec.graceful_eviction_tasks}
    return names | {hold.cluster for hold in binding.status.holds}


USES = Index("bindings that use a cluster", ResourceBinding, clusters_in_use)
CLUSTER_USES = Index("cluster bindings that use a cluster", ClusterResourceBinding, clusters_in_use)


def clusters_of_binding(old: Binding | None, new: Binding | None, view: View) -> Iterable[Key]:
    if not is_any_emptied(view):
        return ()
    names = {name for binding in (old, new) if binding is not None for name in clusters_in_use(binding)}
    return emptied_clusters(sorted(names), view)


def cluster_of_work(old: Work | None, new: Work | None, view: View) -> Iterable[Key]:
    if not is_any_emptied(view):
        return ()
    return emptied_clusters([well_known.cluster_of((new or old or Work()).namespace)], view)


def cluster_of_manifestwork(old: ManifestWork | None, new: ManifestWork | None, view: View) -> Iterable[Key]:
    return emptied_clusters([(new or old or ManifestWork()).namespace], view)


def emptied_clusters(names: Iterable[str], view: View) -> Iterator[Key]:
    for name in names:
        if is_drained(view.get(Cluster, "", name), view.profile):
            yield Key(kind_of(Cluster).id, "", name)


@controller(
    Cluster,
    writes=[
        "status.conditions[Drained]",
        f"metadata.finalizers[{well_known.CLUSTER_FINALIZER}]",
        "Namespace",
        "Work",
        "ManifestWork",
    ],
    triggers=[
        Trigger(ResourceBinding, clusters_of_binding),
        Trigger(ClusterResourceBinding, clusters_of_binding),
        Trigger(Work, cluster_of_work),
        Trigger(ManifestWork, cluster_of_manifestwork),
        Trigger(Namespace, cluster_of_deleted_namespace),
    ],
)
def cluster_departure(cluster: Cluster, view: View) -> Iterator[Effect]:
    if not is_drained(cluster, view.profile):
        if find_condition(cluster.status.conditions, DRAINED) is not None:
            kept = tuple(one for one in cluster.status.conditions if one.type != DRAINED)
            yield cluster.but(status=cluster.status.but(conditions=kept))
        return
    remaining = list(remaining_users(cluster, view))
    forced = is_forced_out(cluster, view.profile)
    news = list(report(cluster, drained_condition(cluster, remaining, view, forced=forced)))
    yield from news
    if forced:
        yield from delete_unbound(cluster, view)
    if remaining:
        yield RequeueAfter(POLL_SECONDS)
    elif is_terminating(cluster) and not news:  # the write of the news causes the next reconcile
        yield from unjoin(cluster, view)


class ClusterUser(NamedTuple):
    """Something that is still in the cluster."""

    name: str
    obstacle: str = ""
    """Why it cannot leave; empty while it is leaving."""
    follows: bool = False
    """It leaves after something else that is in the cluster."""


def remaining_users(cluster: Cluster, view: View) -> Iterator[ClusterUser]:
    """What is in the cluster apart from namespaces, in the order of names."""
    for binding in (*view.by_index(USES, cluster.name), *view.by_index(CLUSTER_USES, cluster.name)):
        yield ClusterUser(workload_name(binding), obstacle_of_binding(binding, cluster.name))
    for manifestwork in view.all(ManifestWork, cluster.name):
        yield ClusterUser(f"manifestwork/{manifestwork.name}", obstacle_of_manifestwork(manifestwork, view))
    for work in view.all(Work, well_known.execution_namespace(cluster.name)):
        if is_of_namespace(work) or (work.metadata.deletion_timestamp is not None and not is_ready(cluster)):
            continue  # the objects in a cluster that does not answer cannot be deleted
        follows = work.metadata.deletion_timestamp is None and not is_unbound(work)
        yield ClusterUser(f"work/{work.name}", obstacle_of_work(work), follows)


def obstacle_of_binding(binding: Binding, cluster: str) -> str:
    if not any(target.name == cluster for target in binding.spec.clusters):
        return ""
    if binding.spec.suspension is not None and binding.spec.suspension.scheduling:
        return "its scheduling is suspended"
    if binding.spec.scheduler_name not in SCHEDULER_NAMES:
        return f"the scheduler {binding.spec.scheduler_name} places it"
    if not any(binding.metadata.labels.get(label) for label in well_known.POLICY_ID_LABELS):
        return "no policy selects it any more, so it cannot be placed elsewhere"
    stalled = binding_moves.stalled_condition_of(binding)
    return stalled.message if stalled is not None else ""


def obstacle_of_manifestwork(manifestwork: ManifestWork, view: View) -> str:
    if manifestwork.metadata.deletion_timestamp is not None:
        return ""
    sets = list(workset_budgets.sets_of(manifestwork, view))
    if not sets:
        return "it was created for this cluster; delete it, or create it for another cluster first"
    stalled = find_condition(sets[0].status.conditions, binding_moves.STALLED)
    return stalled.message if stalled is not None and stalled.status == "True" else ""


def obstacle_of_work(work: Work) -> str:
    if not is_unbound(work) or work.metadata.deletion_timestamp is not None:
        return ""
    return "it was created for this cluster and belongs to no policy; delete it first"


def is_unbound(work: Work) -> bool:
    """Whether a user created the Work, and no binding, ManifestWork or namespace."""
    owned = well_known.binding_key_of_work(work) is not None or well_known.MANIFEST_WORK in work.metadata.annotations
    return not owned and not is_of_namespace(work)


def is_of_namespace(work: Work) -> bool:
    """Whether the Work propagates a namespace, which every cluster has."""
    return any(owner.kind == "Namespace" for owner in work.metadata.owner_references)


def workload_name(binding: Binding) -> str:
    about = binding.spec.resource
    return "/".join(part for part in (about.kind.lower(), about.namespace, about.name) if part)


def drained_condition(cluster: Cluster, remaining: Sequence[ClusterUser], view: View, *, forced: bool) -> Condition:
    """The texts name what is blocked, not what moves, so that a large drain does not write the Cluster for each move."""
    blocked = [user for user in remaining if user.obstacle]
    if forced and remaining:
        reason, message = FORCED, "the copies in the cluster are deleted at once"
    elif blocked:
        reason = BLOCKED if all(user.obstacle or user.follows for user in remaining) else DRAINING
        listed = "; ".join(f"{user.name}: {user.obstacle}" for user in blocked[:MAX_LISTED])
        more = f"; and {len(blocked) - MAX_LISTED} more" if len(blocked) > MAX_LISTED else ""
        message = f"{len(blocked)} cannot leave now: {listed}{more}"
    elif remaining:
        reason, message = DRAINING, "what is in the cluster is leaving"
    else:
        reason, message = EMPTY, EMPTY_MESSAGE if is_ready(cluster) else UNANSWERED_MESSAGE
    return Condition(
        type=DRAINED,
        status="False" if remaining else "True",
        reason=reason,
        message=message,
        last_transition_time=view.now.replace(microsecond=0),
    )


def report(cluster: Cluster, condition: Condition) -> Iterator[Effect]:
    before = find_condition(cluster.status.conditions, DRAINED)
    same = before is not None and (before.reason, before.message) == (condition.reason, condition.message)
    if same:
        return
    yield cluster.but(status=cluster.status.but(conditions=with_condition(cluster.status.conditions, condition)))
    if condition.reason == BLOCKED:
        yield RecordEvent(well_known.ref_of(cluster), "DrainBlocked", condition.message, SOURCE, "Warning")
    elif condition.reason == EMPTY:
        yield RecordEvent(well_known.ref_of(cluster), "Drained", f"{condition.message.capitalize()}.", SOURCE)


def delete_unbound(cluster: Cluster, view: View) -> Iterator[Effect]:
    """Delete what no binding takes out of a cluster that is forced out."""
    for manifestwork in view.all(ManifestWork, cluster.name):
        if manifestwork.metadata.deletion_timestamp is None:
            yield Delete(manifestwork)
    for work in view.all(Work, well_known.execution_namespace(cluster.name)):
        if work.metadata.deletion_timestamp is None and is_unbound(work):
            yield Delete(work)
