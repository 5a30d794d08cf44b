"""Whether a cluster is ready."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.controllers.conditions import is_condition_true


def is_ready(cluster: Cluster) -> bool:
    return is_condition_true(cluster.status.conditions, "Ready")
