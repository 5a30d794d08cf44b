"""The states of a cluster that is being emptied: drained, leaving the fleet, or forced out of it."""

from collections.abc import Iterable

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.profile import Profile
from trimtab.controllers import well_known
from trimtab.controllers.contract import Index, View

DRAINED = "Drained"
"""Condition of a cluster that is being emptied: True when nothing is left, else what blocks it and until when."""
LEAVE_MARK = "leave"
"""In the drain annotation: the cluster is to leave the fleet after the drain."""


def is_terminating(cluster: Cluster | None) -> bool:
    return cluster is not None and cluster.metadata.deletion_timestamp is not None


def departure_states(cluster: Cluster) -> Iterable[str]:
    return (EMPTIED,) if is_terminating(cluster) or well_known.DRAIN in cluster.metadata.annotations else ()


EMPTIED = "emptied"
CLUSTERS_BY_DEPARTURE = Index("clusters that are drained or deleted", Cluster, departure_states)


def is_any_emptied(view: View) -> bool:
    """Whether any cluster is drained or deleted, whether or not the profile moves its workloads out.

    Changes of bindings and Works ask this first: nearly always there is none.
    """
    return view.count(CLUSTERS_BY_DEPARTURE, EMPTIED) > 0


def is_drained(cluster: Cluster | None, profile: Profile) -> bool:
    """Whether what is in the cluster moves out and nothing new is placed there."""
    if cluster is None or not profile.replacement_first:
        return False
    return well_known.DRAIN in cluster.metadata.annotations or is_drained_to_leave(cluster, profile)


def is_drained_to_leave(cluster: Cluster | None, profile: Profile) -> bool:
    """Whether the Cluster is deleted and its workloads move out before it is removed."""
    return profile.drain_before_leaving and is_terminating(cluster)


def is_leaving(cluster: Cluster, profile: Profile) -> bool:
    """Whether the cluster leaves the fleet: it is deleted, or drained by `trimtab unjoin`."""
    marked = LEAVE_MARK in cluster.metadata.annotations.get(well_known.DRAIN, "").split()
    return profile.drain_before_leaving and (marked or is_terminating(cluster))


def is_forced_out(cluster: Cluster | None, profile: Profile) -> bool:
    """Whether the Cluster is deleted and a user has accepted that what is in it is deleted at once."""
    return (
        cluster is not None
        and is_drained_to_leave(cluster, profile)
        and cluster.metadata.annotations.get(well_known.FORCE_LEAVE) == "true"
    )
