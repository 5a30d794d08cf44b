"""Reject clusters with taints that the Placement does not, or no longer, tolerate."""

import numpy as np

from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Mask, Reason, placement_filter, sealed
from trimtab.decide.ocm.request import PlacementAsk
from trimtab.decide.ocm.tolerations import PLUGIN, check, ends, harmless


def repels_newcomers(fleet: Fleet[ManagedCluster]) -> bool:
    """Whether any cluster has a taint that treats clusters in use differently."""

    def newcomers_only(cluster: ManagedCluster) -> bool:
        return any(taint.effect == "NoSelectIfNew" for taint in cluster.spec.taints)

    found = fleet.column("repels newcomers", lambda: newcomers_only, bool)
    return fleet.derived("repels newcomers", lambda: bool(found.any()))


def sweep(ask: PlacementAsk, fleet: Fleet[ManagedCluster]) -> Mask:
    tolerations = ask.spec.tolerations
    check(tolerations)
    key, now = sealed(tolerations), ask.now.timestamp()
    mask: Mask = fleet.column(("ends", key), lambda: ends(tolerations, in_use=False), np.float64) > now
    if ask.placed and repels_newcomers(fleet):
        columns = fleet.columns(ask.placed)
        in_use = fleet.column(("ends in use", key), lambda: ends(tolerations, in_use=True), np.float64)
        mask[columns] = in_use[columns] > now
    return mask


@placement_filter(PLUGIN, evaluate_all=sweep)
def taint_toleration(ask: PlacementAsk, fleet: Fleet[ManagedCluster]) -> Check[ManagedCluster]:
    tolerations = ask.spec.tolerations
    check(tolerations)
    placed, now = frozenset(ask.placed), ask.now.timestamp()
    last = {in_use: ends(tolerations, in_use=in_use) for in_use in (False, True)}

    def judge(cluster: ManagedCluster) -> Reason | None:
        in_use = cluster.name in placed
        for taint in cluster.spec.taints:
            alone = cluster.but(spec=cluster.spec.but(taints=(taint,)))
            if not harmless(taint, in_use=in_use) and last[in_use](alone) <= now:
                return Reason("UntoleratedTaint", f"the cluster has the taint {taint.key}:{taint.effect}")
        return None

    return judge
