"""Whether a cluster is ready."""

from collections.abc import Iterable

from trimtab.api.kinds.cluster import Cluster
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import Index


def is_ready(cluster: Cluster) -> bool:
    return is_condition_true(cluster.status.conditions, "Ready")


def readiness_of(cluster: Cluster) -> Iterable[str]:
    return (READY,) if is_ready(cluster) else (NOT_READY,)


READY, NOT_READY = "ready", "not ready"
CLUSTERS_BY_READINESS = Index("clusters by readiness", Cluster, readiness_of)
