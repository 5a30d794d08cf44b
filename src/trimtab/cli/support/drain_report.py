"""The report of `trimtab explain cluster/NAME`: which workloads leave, when, and which preconditions apply."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import msgspec

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionPolicy, OutageThresholds
from trimtab.api.kinds.work import Binding, ClusterResourceBinding, ResourceBinding
from trimtab.api.profile import Profile
from trimtab.api.value import Object
from trimtab.api.wording import verb
from trimtab.cli.support.output import format_structured
from trimtab.cli.support.server_state import options_of_server
from trimtab.client.client import Client
from trimtab.client.lookups import list_typed
from trimtab.controllers.clusters.departure import DRAINED, is_drained, is_leaving, is_terminating
from trimtab.controllers.clusters.readiness import is_ready
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.cluster_departure import clusters_in_use
from trimtab.controllers.movement.taint_eviction import applied_tolerations, eviction_time, is_storm, no_execute_taints
from trimtab.controllers.settings import value_of
from trimtab.errors import InputError
from trimtab.runtime.declarations import load_declarations
from trimtab.tables import format_table

T = TypeVar("T", bound=Object)


class FleetOverview(NamedTuple):
    """The clusters, the bindings and the storm settings of a fleet."""

    clusters: Sequence[Cluster]
    bindings: Sequence[Binding]
    storm: OutageThresholds
    now: datetime
    settings: Mapping[str, object] = {}
    """The settings that the server tells; others are those of the profile."""


class WorkloadOutlook(msgspec.Struct, rename="camel"):
    """What will happen to a workload of the cluster."""

    kind: str
    namespace: str
    name: str
    replicas: int
    outlook: str


class ClusterReport(msgspec.Struct, rename="camel"):
    """What is known about the workloads of a cluster and what lets them leave."""

    cluster: str
    readiness: str
    no_execute_taint: str
    storm: str
    drain: str
    workloads: list[WorkloadOutlook]


async def explain_cluster(
    client: Client, name: str, chosen_profile: str | None, now: datetime, output: str = "table"
) -> str:
    """The report as text, or as data with `json` and `yaml`; by default with the profile of the server."""
    options = await options_of_server(client)
    profile = options.profile_or(chosen_profile)
    cluster, overview = await find_cluster(client, name, now, options.settings)
    if output == "name":
        return f"cluster/{cluster.name}"
    if output in ("json", "yaml"):
        return format_structured(cluster_report(cluster, overview, profile), output)
    return "\n".join(report_lines(cluster, overview, profile))


async def find_cluster(
    client: Client, name: str, now: datetime, settings: Mapping[str, object]
) -> tuple[Cluster, "FleetOverview"]:
    """The cluster with what its report needs; an error names the clusters that there are."""
    load_declarations()
    clusters = await list_typed(client, Cluster, if_served=True)
    cluster = next((found for found in clusters if found.name == name), None)
    if cluster is None:
        known = ", ".join(sorted(found.name for found in clusters)) or "none"
        raise InputError(f"there is no cluster {name}; the fleet has: {known}")
    bindings: list[Binding] = [*await list_typed(client, ResourceBinding, if_served=True)]
    bindings += await list_typed(client, ClusterResourceBinding, if_served=True)
    policy = next(
        (found for found in await list_typed(client, DisruptionPolicy, if_served=True) if found.name == "default"), None
    )
    storm = (policy.spec.storm if policy is not None else None) or OutageThresholds()
    return cluster, FleetOverview(clusters, bindings, storm, now, settings)


def cluster_report(cluster: Cluster, overview: FleetOverview, profile: Profile) -> ClusterReport:
    bindings = [binding for binding in overview.bindings if is_in_cluster(binding, cluster.name)]
    return ClusterReport(
        cluster=cluster.name,
        readiness=readiness_text(cluster),
        no_execute_taint=taint_text(cluster, value_of("evacuate-after-seconds", overview.settings, profile)),
        storm=storm_text(overview),
        drain=drain_text(cluster, profile),
        workloads=[workload_outlook(binding, cluster, overview, profile) for binding in bindings],
    )


def report_lines(cluster: Cluster, overview: FleetOverview, profile: Profile) -> Iterator[str]:
    report = cluster_report(cluster, overview, profile)
    preconditions = (
        ("NoExecute taint", report.no_execute_taint),
        ("no storm of failures", report.storm),
        ("drain", report.drain),
    )
    yield f"Cluster {report.cluster} {report.readiness}."
    yield ""
    yield format_table(("PRECONDITION", "STATUS"), preconditions)
    yield ""
    if not report.workloads:
        yield "No workload is placed in this cluster."
        return
    yield format_table(("WORKLOAD", "REPLICAS", "OUTLOOK"), [workload_row(one) for one in report.workloads])


def readiness_text(cluster: Cluster) -> str:
    ready = find_condition(cluster.status.conditions, "Ready")
    if ready is None:
        return "has not reported its status yet"
    since = f" since {format_time(ready.last_transition_time)}" if ready.last_transition_time is not None else ""
    if ready.status == "True":
        return f"is ready{since}"
    return f"is not ready{since}: {ready.message or ready.reason}"


def drain_text(cluster: Cluster, profile: Profile) -> str:
    condition = find_condition(cluster.status.conditions, DRAINED)
    progress = condition.message if condition is not None else "in progress"
    if is_leaving(cluster, profile):
        return f"the cluster leaves the fleet: {progress}"
    if is_terminating(cluster):
        return "the cluster is deleted, and its Works with it"
    return progress if is_drained(cluster, profile) else "none; start one with: trimtab drain-cluster"


def taint_text(cluster: Cluster, evacuate_after: int) -> str:
    if taints := no_execute_taints(cluster):
        return ", ".join(f"{t.key} since {format_time(t.time_added)}" if t.time_added else t.key for t in taints)
    ready = find_condition(cluster.status.conditions, "Ready")
    if ready is None or ready.status == "True" or ready.last_transition_time is None:
        return "none, and none is scheduled"
    if not evacuate_after:
        return "none; evacuate-after-seconds is 0, so it is set only by users and ClusterTaintPolicies"
    due = ready.last_transition_time + timedelta(seconds=evacuate_after)
    return f"none yet; set at {format_time(due)} if the cluster is still not ready (evacuate-after-seconds)"


def storm_text(overview: FleetOverview) -> str:
    total = len(overview.clusters)
    unready = sum(not is_ready(cluster) for cluster in overview.clusters)
    storm = overview.storm
    text = f"{unready} of {total} clusters {verb(unready, 'is', 'are')} not ready"
    if is_storm(storm.stop_above, unready, total, storm):
        return f"{text}, more than {storm.stop_above}: evacuation is stopped until clusters recover"
    if is_storm(storm.slow_above, unready, total, storm):
        return f"{text}, more than {storm.slow_above}: the eviction rate is reduced"
    return f"met: {text}"


def is_in_cluster(binding: Binding, cluster: str) -> bool:
    return cluster in clusters_in_use(binding)


def workload_outlook(binding: Binding, cluster: Cluster, overview: FleetOverview, profile: Profile) -> WorkloadOutlook:
    workload = binding.spec.resource
    share = next((target.replicas for target in binding.spec.clusters if target.name == cluster.name), 0)
    outlook = outlook_text(binding, cluster, overview, profile)
    return WorkloadOutlook(workload.kind, workload.namespace, workload.name, share, outlook)


def workload_row(one: WorkloadOutlook) -> tuple[str, str, str]:
    place = f"{one.namespace}/{one.name}" if one.namespace else one.name
    return f"{one.kind} {place}", str(one.replicas or "-"), one.outlook


def outlook_text(binding: Binding, cluster: Cluster, overview: FleetOverview, profile: Profile) -> str:
    for hold in binding.status.holds:
        if hold.cluster == cluster.name:
            who = "1 replica waits until its" if hold.replicas == 1 else f"{hold.replicas} replicas wait until their"
            return f"is moving: {who} replacement is ready"
    for task in binding.spec.graceful_eviction_tasks:
        if task.from_cluster == cluster.name:
            since = f" since {format_time(task.creation_timestamp)}" if task.creation_timestamp is not None else ""
            return f"is being evicted{since}: {task.reason}, {task.purge_mode}"
    stuck = binding_moves.stalled_condition_of(binding)
    if stuck is not None:
        return f"{stuck.reason}: {stuck.message}"
    if is_drained(cluster, profile):
        return "moves to other clusters with the drain"
    taints = no_execute_taints(cluster)
    if not taints:
        return "stays: the cluster has no NoExecute taint"
    tolerations = applied_tolerations(binding)
    if tolerations is None:
        return "not scheduled yet"
    due = eviction_time(taints, tolerations, overview.now)
    if due is None:
        return "stays: its policy tolerates the taint"
    return (
        f"stays until {format_time(due)}: its policy tolerates the taint until then"
        if due > overview.now
        else "is evicted as soon as the eviction rate allows it"
    )


def format_time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
