"""Cluster health: conditions, capacity and taints from probes, and the execution namespace for the cluster's Works."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import (
    NOT_READY_TAINT,
    UNREACHABLE_TAINT,
    APIEnablement,
    Cluster,
    ClusterStatus,
    FreeNodes,
    NodeSummary,
    ResourceSummary,
    Taint,
)
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import Work
from trimtab.api.value import Condition, Key, Meta
from trimtab.controllers import well_known
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.clusters.served import is_served, reports_only
from trimtab.controllers.conditions import find_condition, is_condition_true, with_condition
from trimtab.controllers.contract import (
    Delete,
    Effect,
    RecordEvent,
    RememberInProcess,
    RequeueAfter,
    Topic,
    Trigger,
    View,
    controller,
)
from trimtab.controllers.finalizers import with_finalizer, without_finalizers
from trimtab.controllers.settings import setting

SOURCE = "cluster-controller"
CONDITION_TAINTS = (NOT_READY_TAINT, UNREACHABLE_TAINT)
POLL_SECONDS = 10.0


class Probe(NamedTuple):
    """One probe of a member cluster, done by the shell."""

    at: datetime
    online: bool
    healthy: bool
    version: str = ""
    enablements: tuple[APIEnablement, ...] = ()
    complete: bool = True
    """Discovery succeeded for every group."""
    nodes: NodeSummary | None = None
    resources: ResourceSummary | None = None
    free_nodes: FreeNodes | None = None
    """None where capacity does not come from nodes."""
    reachable: bool = True
    """Credentials could be loaded and a client could be created."""
    unschedulable_pods: tuple[Any, ...] = ()
    """Pods that no node can run (`unschedulable_replicas.UnschedulablePod`)."""
    steady_at: datetime | None = None
    """The same time on the clock for durations; None where the caller has only one clock."""

    @property
    def measured_at(self) -> datetime:
        """The time for comparing two probes."""
        return self.steady_at or self.at

    @property
    def findings(self) -> tuple[Any, ...]:
        """Everything but the times."""
        return self[1:-1]


class Streak(NamedTuple):
    """Since when probes differ from the published Ready status."""

    status: str
    since: datetime


PROBE: Topic[str, Probe] = Topic("probe")
"""The last probe, by cluster."""
REPORTED_PROBE: Topic[str, tuple[tuple[Any, ...], str]] = Topic("reported probe")
"""What the last probe of a cluster found, and the version of the Cluster at that time."""
STREAK: Topic[str, Streak | None] = Topic("streak")
HEARTBEAT: Topic[str, datetime] = Topic("heartbeat")
"""When the agent of a Pull cluster last renewed its Lease, by the clock for durations."""


def is_settled_probe(before: tuple[tuple[Any, ...], str] | None, probe: Probe, cluster: Cluster) -> bool:
    """Whether a probe says nothing new: it needs no reconcile.

    The cluster is ready, the probe before found the same, and the Cluster has not changed since, by anybody. Only then
    nothing waits for a time, as a streak and an evacuation do.
    """
    return probe.healthy and before == (probe.findings, cluster.metadata.resource_version) and is_ready(cluster)


def cluster_of_deleted_namespace(old: Namespace | None, new: Namespace | None, view: View) -> Iterator[Key]:
    if new is None and old is not None and (cluster := well_known.cluster_of(old.name)):
        yield Key(kind_of(Cluster).id, "", cluster)


def cluster_of_deleted_work(old: Work | None, new: Work | None, view: View) -> Iterator[Key]:
    if new is None and old is not None and (cluster := well_known.cluster_of(old.namespace)):
        found = view.get(Cluster, "", cluster)
        if found is not None and found.metadata.deletion_timestamp is not None:
            yield Key(kind_of(Cluster).id, "", cluster)


@controller(
    Cluster,
    writes=[
        "status.kubernetesVersion",
        "status.apiEnablements",
        "status.nodeSummary",
        "status.resourceSummary",
        "status.freeNodes",
        "status.conditions[Ready]",
        "status.conditions[CompleteAPIEnablements]",
        "spec.taints",
        f"metadata.finalizers[{well_known.CLUSTER_FINALIZER}]",
        "Namespace",
        f"Work.metadata.finalizers[{well_known.WORK_FINALIZER}]",
    ],
    triggers=[Trigger(Namespace, cluster_of_deleted_namespace), Trigger(Work, cluster_of_deleted_work)],
)
def health(cluster: Cluster, view: View) -> Iterator[Effect]:
    if reports_only(view):
        yield from report_own_cluster(cluster, view)
        return
    leaves = cluster.metadata.deletion_timestamp is not None
    if leaves and not view.profile.drain_before_leaving:
        yield from unjoin(cluster, view)
        return
    after = cluster
    if not leaves:
        yield from ensure_execution_namespace(cluster, view)
        after = with_finalizer(cluster, well_known.CLUSTER_FINALIZER)
    if is_served(cluster, view):
        status, streak = status_after_probe(cluster, view)
        after = after.but(status=status)
        yield RememberInProcess(STREAK, cluster.name, streak)
    elif cluster.spec.sync_mode == "Pull" and (silent := status_when_silent(cluster, view)):
        after = after.but(status=silent)
    after = after.but(spec=after.spec.but(taints=taints_for(after, view)))
    if after != cluster:
        yield after
    if after.spec.taints != cluster.spec.taints:
        yield RecordEvent(well_known.ref_of(cluster), "TaintClusterSucceed", format_taints(after.spec.taints), SOURCE)
    if wait := seconds_until_evacuation(after, view):
        yield RequeueAfter(wait)
    if cluster.spec.sync_mode == "Pull":
        yield RequeueAfter(5)


def report_own_cluster(cluster: Cluster, view: View) -> Iterator[Effect]:
    """An agent reports what its probe found, about its own cluster only.

    Taints, the finalizer, and the verdict about an agent that no longer reports belong to the control plane.
    """
    leaves = cluster.metadata.deletion_timestamp is not None and not view.profile.drain_before_leaving
    if leaves or not is_served(cluster, view):
        return
    status, streak = status_after_probe(cluster, view)
    yield RememberInProcess(STREAK, cluster.name, streak)
    if status != cluster.status:
        yield cluster.but(status=status)


def ensure_execution_namespace(cluster: Cluster, view: View) -> Iterator[Effect]:
    name = well_known.execution_namespace(cluster.name)
    if view.get(Namespace, "", name) is None:
        yield Namespace(metadata=Meta(name=name, labels={well_known.SYSTEM: "true"}))
        text = f"Created execution space({name}) for cluster({cluster.name})."
        yield RecordEvent(well_known.ref_of(cluster), "CreateExecutionSpaceSucceed", text, SOURCE)


def unjoin(cluster: Cluster, view: View) -> Iterator[Effect]:
    """Delete the Works, then their namespace; remove the finalizer when no binding targets the cluster."""
    name = well_known.execution_namespace(cluster.name)
    works = view.all(Work, name)
    unreachable = cluster.spec.sync_mode == "Pull" and not is_condition_true(cluster.status.conditions, "Ready")
    for work in works:
        if unreachable and well_known.WORK_FINALIZER in work.metadata.finalizers:
            yield without_finalizers(work, well_known.WORK_FINALIZER)
    namespace = view.get(Namespace, "", name)
    if namespace is not None:
        if namespace.metadata.deletion_timestamp is None:
            yield Delete(namespace)
            text = f"Removed execution space for cluster({cluster.name})."
            yield RecordEvent(well_known.ref_of(cluster), "RemoveExecutionSpaceSucceed", text, SOURCE)
        yield RequeueAfter(POLL_SECONDS)
        return
    if any(t.name == cluster.name for b in well_known.bindings_in_cluster(view, cluster.name) for t in b.spec.clusters):
        yield RequeueAfter(POLL_SECONDS)
        return
    after = without_finalizers(cluster, well_known.CLUSTER_FINALIZER)
    if after is not cluster:
        yield after


def status_after_probe(cluster: Cluster, view: View) -> tuple[ClusterStatus, Streak | None]:
    """The status after the last probe; a flap shorter than the threshold changes nothing in the published status."""
    probe = view.recall(PROBE, cluster.name)
    streak = view.recall(STREAK, cluster.name)
    if probe is None:
        return cluster.status, streak
    probed = ready_condition_of(probe)
    published = find_condition(cluster.status.conditions, "Ready")
    if published is not None and published.status != probed.status:
        if streak is None or streak.status != probed.status:
            streak = Streak(probed.status, probe.measured_at)
        name = "cluster-success-threshold" if probed.status == "True" else "cluster-failure-threshold"
        threshold = timedelta(seconds=float(setting(view, name)))
        if probe.measured_at - streak.since < threshold:
            return cluster.status, streak
    status = cluster.status.but(conditions=with_condition(cluster.status.conditions, probed))
    if probed.status == "True":
        status = with_collected_status(status, probe)
    return status, None


def ready_condition_of(probe: Probe) -> Condition:
    """The Ready condition according to this probe alone."""
    if not probe.reachable:
        return ready_condition("False", "StatusCollectionFailed", "cannot make a client for the cluster", probe.at)
    if not probe.online:
        return ready_condition("False", "ClusterNotReachable", "cluster is not reachable", probe.at)
    if not probe.healthy:
        text = "cluster is reachable but health endpoint responded without ok"
        return ready_condition("False", "ClusterNotReady", text, probe.at)
    return ready_condition("True", "ClusterReady", "cluster is healthy and ready to accept workloads", probe.at)


def ready_condition(status: str, reason: str, message: str, at: datetime) -> Condition:
    return Condition(
        type="Ready", status=status, reason=reason, message=message, last_transition_time=at.replace(microsecond=0)
    )


def with_collected_status(status: ClusterStatus, probe: Probe) -> ClusterStatus:
    """Version, APIs and capacity of a ready cluster."""
    at = probe.at.replace(microsecond=0)
    if probe.complete:
        complete = Condition(
            type="CompleteAPIEnablements",
            status="True",
            reason="Complete",
            message="collected complete APIEnablements",
            last_transition_time=at,
        )
    else:
        complete = Condition(
            type="CompleteAPIEnablements",
            status="False",
            reason="Partial" if probe.enablements else "Empty",
            message="might collect partial APIEnablements" if probe.enablements else "collected empty APIEnablements",
            last_transition_time=at,
        )
    return status.but(
        kubernetes_version=probe.version,
        api_enablements=probe.enablements,
        node_summary=probe.nodes,
        resource_summary=probe.resources,
        free_nodes=probe.free_nodes,
        conditions=with_condition(status.conditions, complete),
    )


def status_when_silent(cluster: Cluster, view: View) -> ClusterStatus | None:
    """Ready=Unknown for a Pull cluster whose agent has not reported for too long."""
    last_report = view.recall(HEARTBEAT, cluster.name)
    published = find_condition(cluster.status.conditions, "Ready")
    if last_report is None:
        created = cluster.metadata.creation_timestamp or view.now
        if timedelta() <= view.now - created < timedelta(seconds=float(setting(view, "cluster-startup-grace-period"))):
            return None
        reason, message = "ClusterStatusNeverUpdated", "Clusterstatus controller never posted cluster status."
    else:
        if view.steady_now - last_report < timedelta(seconds=float(setting(view, "cluster-monitor-grace-period"))):
            return None
        reason, message = "ClusterStatusUnknown", "Clusterstatus controller stopped posting cluster status."
    if published is not None and published.status == "Unknown":
        return None
    unknown = ready_condition("Unknown", reason, message, view.now)
    return cluster.status.but(conditions=with_condition(cluster.status.conditions, unknown))


def taints_for(cluster: Cluster, view: View) -> tuple[Taint, ...]:
    """Taints by condition: NoSchedule for a cluster that is not ready, and NoExecute when it stays so."""
    ready = find_condition(cluster.status.conditions, "Ready")
    if ready is not None and ready.status == "True":
        return tuple(taint for taint in cluster.spec.taints if taint.key not in CONDITION_TAINTS)
    wanted = UNREACHABLE_TAINT if ready is not None and ready.status == "Unknown" else NOT_READY_TAINT
    taints = tuple(t for t in cluster.spec.taints if t.key not in CONDITION_TAINTS or t.key == wanted)
    now = view.now.replace(microsecond=0)
    if not any(t.key == wanted and t.effect == "NoSchedule" for t in taints):
        taints = (*taints, Taint(key=wanted, effect="NoSchedule", time_added=now))
    if seconds_until_evacuation(cluster, view) == 0 and not any(
        t.key == wanted and t.effect == "NoExecute" for t in taints
    ):
        taints = (*taints, Taint(key=wanted, effect="NoExecute", time_added=now))
    return taints


def seconds_until_evacuation(cluster: Cluster, view: View) -> float | None:
    """Seconds until a cluster that stays not ready is evacuated; 0 when due, None when it never is."""
    ready = find_condition(cluster.status.conditions, "Ready")
    delay = int(setting(view, "evacuate-after-seconds"))
    if not delay or ready is None or ready.status == "True" or ready.last_transition_time is None:
        return None
    due = ready.last_transition_time + timedelta(seconds=delay)
    return max(0.0, (due - view.now).total_seconds()) if due > view.now else 0.0


def format_taints(taints: Sequence[Taint]) -> str:
    if not taints:
        return "Taint cluster succeed: cluster now does not have taints."
    listed = ",".join(
        "{"
        + ",".join(
            part for part in (f"Key:{t.key}", f"Value:{t.value}" if t.value else "", f"Effect:{t.effect}") if part
        )
        + "}"
        for t in taints
    )
    return f"Taint cluster succeed: cluster now has taints([{listed}])."
