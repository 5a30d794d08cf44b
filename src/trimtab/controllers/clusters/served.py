"""Which clusters this process probes and applies Works in: no process judges or writes to another one's clusters."""

from trimtab.api.kinds.cluster import Cluster

SIMULATED_SUFFIX = ".simulated.invalid"
"""The endpoints of simulated members end so: only the process that simulates a member can reach it."""


def is_served_by(cluster: Cluster, agent: str) -> bool:
    """A control plane (`agent` is empty) serves the Push clusters, an agent its own cluster if that is in Pull mode."""
    is_pulled = cluster.spec.sync_mode == "Pull"
    return is_pulled and cluster.name == agent if agent else not is_pulled
