"""Reject clusters with taints that the Placement does not, or no longer, tolerate."""

from bisect import bisect_right
from collections.abc import Hashable

import numpy as np

from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Check, Mask, Reason, hashable_key, placement_filter
from trimtab.decide.ocm.request import OcmRequest
from trimtab.decide.ocm.tolerations import PLUGIN, is_harmless, tolerated_until, validate_tolerations


def has_no_select_if_new(fleet: Fleet[ManagedCluster]) -> bool:
    """Whether any cluster has a taint that treats clusters in use differently."""

    def newcomers_only(cluster: ManagedCluster) -> bool:
        return any(taint.effect == "NoSelectIfNew" for taint in cluster.spec.taints)

    found = fleet.column("repels newcomers", lambda: newcomers_only, bool)
    return fleet.compute_once("repels newcomers", lambda: bool(found.any()))


def untainted_mask(request: OcmRequest, fleet: Fleet[ManagedCluster]) -> Mask:
    tolerations = request.spec.tolerations
    validate_tolerations(tolerations)
    key, now = hashable_key(tolerations), request.now.timestamp()
    mask: Mask = until_tolerated(request, fleet) > now
    if request.placed and has_no_select_if_new(fleet):
        columns = fleet.columns_of(request.placed)
        in_use = fleet.column(("ends in use", key), lambda: tolerated_until(tolerations, in_use=True), np.float64)
        mask[columns] = in_use[columns] > now
    return mask


def toleration_period(request: OcmRequest, fleet: Fleet[ManagedCluster]) -> Hashable | None:
    """The tolerations, and how many of them have ended by now: between two ends the same clusters are tolerated."""
    key = hashable_key(request.spec.tolerations)
    ends, treats_clusters_in_use_differently = fleet.compute_once(
        ("toleration periods", key), lambda: (toleration_ends(request, fleet), has_no_select_if_new(fleet))
    )
    if treats_clusters_in_use_differently and request.placed:
        return None
    return key, bisect_right(ends, request.now.timestamp()) if ends else 0


def toleration_ends(request: OcmRequest, fleet: Fleet[ManagedCluster]) -> list[float]:
    """The different times at which a toleration of some cluster ends."""
    ends = until_tolerated(request, fleet)
    return sorted(set(ends[np.isfinite(ends)].tolist()))


def until_tolerated(request: OcmRequest, fleet: Fleet[ManagedCluster]) -> Array:
    """Until when the taints of each cluster are tolerated if it is not in use, in seconds since 1970."""
    tolerations = request.spec.tolerations
    return fleet.column(
        ("ends", hashable_key(tolerations)), lambda: tolerated_until(tolerations, in_use=False), np.float64
    )


@placement_filter(PLUGIN, array=untainted_mask, array_key=toleration_period)
def taint_toleration(request: OcmRequest, fleet: Fleet[ManagedCluster]) -> Check[ManagedCluster]:
    tolerations = request.spec.tolerations
    validate_tolerations(tolerations)
    placed, now = frozenset(request.placed), request.now.timestamp()
    last = {in_use: tolerated_until(tolerations, in_use=in_use) for in_use in (False, True)}

    def judge(cluster: ManagedCluster) -> Reason | None:
        in_use = cluster.name in placed
        for taint in cluster.spec.taints:
            alone = cluster.but(spec=cluster.spec.but(taints=(taint,)))
            if not is_harmless(taint, in_use=in_use) and last[in_use](alone) <= now:
                return Reason("UntoleratedTaint", f"the cluster has the taint {taint.key}:{taint.effect}")
        return None

    return judge
