"""Which clusters this process probes and applies Works in: no process judges or writes to another one's clusters."""

from trimtab.api.kinds.cluster import Cluster
from trimtab.controllers.contract import View
from trimtab.controllers.settings import setting

SIMULATED_SUFFIX = ".simulated.invalid"
"""The endpoints of simulated members end so: only the process that simulates a member can reach it."""
OWNED_MEMBERS = "owned-members"
"""In the settings of a process that shares the members with others: the names of those whose Lease it holds."""
PUSHES_ONLY = "pushes-only"
"""In the settings of a process that serves members and decides nothing: another one decides."""


def is_served_by(cluster: Cluster, agent: str) -> bool:
    """A control plane (`agent` is empty) serves the Push clusters, an agent its own cluster if that is in Pull mode."""
    is_pulled = cluster.spec.sync_mode == "Pull"
    return is_pulled and cluster.name == agent if agent else not is_pulled


def is_served(cluster: Cluster, view: View) -> bool:
    """Whether this process probes the cluster and applies its Works."""
    owned = view.settings.get(OWNED_MEMBERS)
    return is_served_by(cluster, setting(view, "agent")) and (owned is None or cluster.name in owned)


def reports_only(view: View) -> bool:
    """Whether this process only reports about its clusters; taints and finalizers are written by the one that decides."""
    return bool(setting(view, "agent") or view.settings.get(PUSHES_ONLY))
