"""Turn down clusters with taints that the Placement does not tolerate, or no longer."""

import numpy as np

from trimtab.api.kinds.ocm import ManagedCluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Mask, Reason, placement_filter, sealed
from trimtab.decide.ocm.ask import PlacementAsk
from trimtab.decide.ocm.tolerate import PLUGIN, check, columns_of, ends, harmless


def sweep(ask: PlacementAsk, fleet: Fleet[ManagedCluster]) -> Mask:
    tolerations = ask.spec.tolerations
    check(tolerations)
    key, now = sealed(tolerations), ask.now.timestamp()
    mask: Mask = fleet.column(("ends", key), lambda: ends(tolerations, in_use=False), np.float64) > now
    if ask.placed:
        columns = columns_of(ask.placed, fleet)
        in_use = fleet.column(("ends in use", key), lambda: ends(tolerations, in_use=True), np.float64)
        mask[columns] = in_use[columns] > now
    return mask


@placement_filter(PLUGIN, sweep=sweep)
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
