"""The load of clusters before and after a plan.

Clusters report what is requested in them every ten seconds. What was placed or has left in the last ten seconds may be in
the last report or not: a report has no time. It is added to the report, as the scheduler reserves what it has just placed,
unless the cluster reports exactly as many pods as are placed in it. A cluster that reports fewer has at least what is placed.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.work import Binding
from trimtab.decide.node_capacity import amount_of
from trimtab.decide.request import resource_request_of
from trimtab.dryrun.fleet_state import FleetState
from trimtab.dryrun.plan_outcomes import Outcome
from trimtab.dryrun.plan_result import NEVER, REFUSED, ClusterLoad

RESOURCES = ("cpu", "memory", "pods")
REPORT_INTERVAL = timedelta(seconds=10)
Amounts = Counter[str]
"""Milli-CPU, bytes and pods; also less than nothing."""


class RecentChanges(NamedTuple):
    """What clusters may not have reported yet."""

    amounts: Mapping[str, Amounts]
    leaving: Mapping[str, Amounts]
    """What leaves a cluster when moves in progress are done."""
    placed: Mapping[str, Amounts]
    """What all workloads in a cluster request: those that are placed there, and those that have not left yet."""


def recent_changes(state: FleetState) -> RecentChanges:
    """What was placed in clusters and what has left them so lately that it may not be reported."""
    bindings = {workload_key(binding): binding for binding in state.bindings}
    amounts: dict[str, Amounts] = {}
    leaving: dict[str, Amounts] = {}
    placed: dict[str, Amounts] = {}
    for binding in bindings.values():
        is_new = is_recent(binding.metadata.creation_timestamp, state.now)
        needs = needs_of(binding)
        for target in binding.spec.clusters:
            add_replicas(placed, target.name, target.replicas, needs)
            if is_new:
                add_replicas(amounts, target.name, target.replicas, needs)
    for move in state.all(Move):
        moved = bindings.get((move.spec.object.kind, move.spec.object.namespace, move.spec.object.name))
        if moved is None or move.status.outcome not in ("", "Done"):
            continue
        needs = needs_of(moved)
        if is_recent(move.status.started, state.now) and not is_recent(moved.metadata.creation_timestamp, state.now):
            for gained in move.spec.to:
                add_replicas(amounts, gained.name, gained.replicas, needs)
        if not move.status.outcome:
            add_replicas(placed, move.spec.from_, move.spec.replicas, needs)
            add_replicas(leaving, move.spec.from_, -move.spec.replicas, needs)
        elif is_recent(move.status.finished, state.now):
            add_replicas(amounts, move.spec.from_, -move.spec.replicas, needs)
    return RecentChanges(amounts, leaving, placed)


def workload_key(binding: Binding) -> tuple[str, str, str]:
    resource = binding.spec.resource
    return resource.kind, resource.namespace, resource.name


def is_recent(at: datetime | None, now: datetime) -> bool:
    return at is not None and now - at < REPORT_INTERVAL


def needs_of(binding: Binding) -> tuple[tuple[str, int], ...]:
    """What one replica requests."""
    needs = binding.spec.replica_requirements
    return (*(resource_request_of(needs.resource_request) if needs is not None else ()), ("pods", 1))


def add_replicas(amounts: dict[str, Amounts], cluster: str, replicas: int, needs: tuple[tuple[str, int], ...]) -> None:
    total = amounts.setdefault(cluster, Counter())
    for resource, amount in needs:
        total[resource] += replicas * amount


def cluster_loads(
    state: FleetState, outcomes: Sequence[Outcome], lost: frozenset[str], recent: RecentChanges | None = None
) -> tuple[ClusterLoad, ...]:
    """Requested resources per cluster, before and after all moves are done; `recent` is added to what clusters reported."""
    gains: dict[str, dict[str, int]] = {}
    replicas = replicas_by_cluster(state)
    gained_replicas: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.row.action == REFUSED or outcome.row.start == NEVER or not outcome.decision.ok:
            continue
        before, after = outcome.case.before, dict(outcome.decision.clusters)
        needs = dict(outcome.decision.request.resource_request or ())
        for name in before.keys() | after.keys():
            gain = after.get(name, 0) - before.get(name, 0)
            gained_replicas[name] = gained_replicas.get(name, 0) + gain
            amounts = gains.setdefault(name, {})
            for resource, amount in (*needs.items(), ("pods", 1)):
                amounts[resource] = amounts.get(resource, 0) + gain * amount
    return tuple(
        load_of(cluster, gains.get(cluster.name, {}), lost, recent).but(
            replicas_before=replicas.get(cluster.name, 0),
            replicas_after=0
            if cluster.name in lost
            else replicas.get(cluster.name, 0) + gained_replicas.get(cluster.name, 0),
        )
        for cluster in state.all(Cluster)
    )


def replicas_by_cluster(state: FleetState) -> dict[str, int]:
    found: dict[str, int] = {}
    for binding in state.bindings:
        for target in binding.spec.clusters:
            found[target.name] = found.get(target.name, 0) + target.replicas
    return found


def load_of(
    cluster: Cluster, gains: Mapping[str, int], lost: frozenset[str], recent: RecentChanges | None
) -> ClusterLoad:
    load = ClusterLoad(cluster=cluster.name, region=cluster.spec.region, is_lost=cluster.name in lost)
    summary = cluster.status.resource_summary
    if summary is None:
        return load
    parts: dict[str, float] = {}
    leaving: Mapping[str, int] = recent.leaving.get(cluster.name, {}) if recent is not None else {}
    for resource in RESOURCES:
        total = amount_of(resource, summary.allocatable.get(resource, "0"))
        if not total:
            continue
        used = requested_now(cluster, resource, recent)
        parts[f"{resource}_before"] = round(used / total, 4)
        if cluster.name not in lost:
            parts[f"{resource}_after"] = round(
                max(0, used + gains.get(resource, 0) + leaving.get(resource, 0)) / total, 4
            )
    return load.but(**parts)


def requested_in(cluster: Cluster, resource: str) -> int:
    """What the cluster last reported as requested: by pods on nodes, and by those that wait for one."""
    summary = cluster.status.resource_summary
    if summary is None:
        return 0
    return sum(amount_of(resource, part.get(resource, "0")) for part in (summary.allocated, summary.allocating))


def requested_now(cluster: Cluster, resource: str, recent: RecentChanges | None) -> int:
    """What the cluster reported, and what it has not reported yet."""
    reported, pods = requested_in(cluster, resource), requested_in(cluster, "pods")
    if recent is None:
        return reported
    placed: Mapping[str, int] = recent.placed.get(cluster.name, {})
    if pods == placed.get("pods", 0):
        return reported
    found = max(0, reported + recent.amounts.get(cluster.name, Counter())[resource])
    return max(found, placed[resource]) if pods < placed.get("pods", 0) else found


def spread_of(loads: Sequence[ClusterLoad], *, after: bool) -> float | None:
    """The standard deviation of requested CPU over the clusters, in percentage points."""
    values = [load.cpu_after if after else load.cpu_before for load in loads if not load.is_lost]
    known = [100 * value for value in values if value is not None]
    return round(statistics.pstdev(known), 1) if len(known) > 1 else None
