"""Reject clusters with taints that the Placement does not, or no longer, tolerate."""

import numpy as np

from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.decide.fleet import Fleet
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
    mask: Mask = fleet.column(("ends", key), lambda: tolerated_until(tolerations, in_use=False), np.float64) > now
    if request.placed and has_no_select_if_new(fleet):
        columns = fleet.columns_of(request.placed)
        in_use = fleet.column(("ends in use", key), lambda: tolerated_until(tolerations, in_use=True), np.float64)
        mask[columns] = in_use[columns] > now
    return mask


@placement_filter(PLUGIN, array=untainted_mask)
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
