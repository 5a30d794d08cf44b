"""What the pages say about one cluster."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from trimtab.api.kinds.cluster import CORDON_TAINT, Cluster
from trimtab.api.quantity import InvalidQuantity, milli_value
from trimtab.console.facts import Facts
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition

READY, DARK, DRAINING, CORDONED, JOINING = "ok", "dark", "drain", "closed", "new"
"""States of a cluster."""
CORES = 1000.0
MAX_LOAD = 1000.0
GIB = 1000.0 * (1 << 30)


class ClusterFacts(Facts):
    name: str
    state: str
    region: str = ""
    zones: tuple[str, ...] = ()
    provider: str = ""
    version: str = ""
    sync_mode: str = ""
    since: datetime | None = None
    """Since when the Ready condition has its status."""
    message: str = ""
    drain_since: str = ""
    drain_by: str = ""
    """The user who began the drain."""
    cordoned: bool = False
    simulated: bool = False
    ready_nodes: int = 0
    nodes: int = 0
    cpu: float = 0.0
    cpu_used: float = 0.0
    memory: float = 0.0
    """GiB."""
    memory_used: float = 0.0
    taints: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    version_of_model: int = 0

    @property
    def load(self) -> float:
        """The requested share of the CPU; a cluster that reports next to no CPU is not infinitely loaded."""
        return min(self.cpu_used / self.cpu, MAX_LOAD) if self.cpu else 0.0

    @property
    def is_ready(self) -> bool:
        return self.state not in (DARK, JOINING)


def amount(quantities: Mapping[str, Any], name: str, unit: float) -> float:
    try:
        return milli_value(quantities[name]) / unit if name in quantities else 0.0
    except (InvalidQuantity, ValueError):
        return 0.0


def cluster_state(cluster: Cluster) -> str:
    ready = find_condition(cluster.status.conditions, "Ready")
    if ready is None:
        return JOINING
    if ready.status != "True":
        return DARK
    if well_known.DRAIN in cluster.metadata.annotations or cluster.metadata.deletion_timestamp is not None:
        return DRAINING
    return CORDONED if any(taint.key == CORDON_TAINT for taint in cluster.spec.taints) else READY


def cluster_facts(cluster: Cluster, version: int = 0) -> ClusterFacts:
    ready = find_condition(cluster.status.conditions, "Ready")
    nodes, summary = cluster.status.node_summary, cluster.status.resource_summary
    has = summary.allocatable if summary is not None else {}
    used = (summary.allocated, summary.allocating) if summary is not None else ()
    drain = cluster.metadata.annotations.get(well_known.DRAIN, "")
    return ClusterFacts(
        name=cluster.name,
        state=cluster_state(cluster),
        region=cluster.spec.region,
        zones=cluster.spec.zones,
        provider=cluster.spec.provider,
        version=cluster.status.kubernetes_version,
        sync_mode=cluster.spec.sync_mode,
        since=ready.last_transition_time if ready is not None else None,
        message=(ready.message or ready.reason) if ready is not None else "",
        drain_since=drain.split()[0] if drain else "",
        drain_by=cluster.metadata.annotations.get(well_known.REQUESTER, "") if drain else "",
        cordoned=any(taint.key == CORDON_TAINT for taint in cluster.spec.taints),
        ready_nodes=nodes.ready_num if nodes is not None else 0,
        nodes=nodes.total_num if nodes is not None else 0,
        cpu=amount(has, "cpu", CORES),
        cpu_used=math.fsum(amount(part, "cpu", CORES) for part in used),
        memory=amount(has, "memory", GIB),
        memory_used=math.fsum(amount(part, "memory", GIB) for part in used),
        taints=tuple(
            f"{taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}" for taint in cluster.spec.taints
        ),
        labels=dict(cluster.metadata.labels),
        version_of_model=version,
    )
