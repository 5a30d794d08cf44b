"""Empty underutilised nodes, so that they can be removed."""

import numpy as np

from trimtab.decide.pods.descheduling.evictor import Round
from trimtab.decide.pods.descheduling.movers import MoverArgs, Namespaces, mover
from trimtab.decide.pods.metrics.utilisation import Drain, bad_limits, below, resources_of, schedulable, usage
from trimtab.decide.pods.node_info import Resident

ONLY_THRESHOLDING = "OnlyThresholdingResources"


class HighNodeUtilizationArgs(MoverArgs):
    thresholds: dict[str, float] = {}
    number_of_nodes: int = 0
    eviction_modes: tuple[str, ...] = ()
    evictable_namespaces: Namespaces = Namespaces()

    def complaint(self) -> str:
        if wrong := bad_limits(self.thresholds, "thresholds"):
            return wrong
        if unknown := set(self.eviction_modes) - {ONLY_THRESHOLDING}:
            return f"evictionModes: there is no {min(unknown)}"
        return "evictableNamespaces: only exclude is known" if self.evictable_namespaces.include else ""


@mover("HighNodeUtilization", args=HighNodeUtilizationArgs, balances=True)
def high_node_utilization(args: HighNodeUtilizationArgs, round_: Round) -> None:
    hosts = round_.scene.hosts
    measured = usage(round_.scene, resources_of(args.thresholds))
    idle = below(measured, args.thresholds)
    targets_mask = ~idle & schedulable(round_.scene)
    if not args.number_of_nodes < np.count_nonzero(idle) < len(hosts) or not targets_mask.any():
        return
    limited = frozenset(args.thresholds) if ONLY_THRESHOLDING in args.eviction_modes else frozenset()

    def meant(pod: Resident) -> bool:
        return any(resource in limited for resource in pod.demand.requests)

    targets = [hosts[column] for column in np.flatnonzero(targets_mask)]
    drain = Drain(
        round_=round_,
        targets=targets,
        names=frozenset(node_info.name for node_info in targets),
        untainted=any(not node_info.node.spec.taints for node_info in targets),
        available={r: int((measured.size[r] - measured.used[r])[targets_mask].sum()) for r in measured.used},
        namespaces=args.evictable_namespaces,
        limit=None,
        reason="its node is hardly used and can be emptied",
        meant=meant if limited else None,
    )
    total = measured.total()
    order = sorted(np.flatnonzero(idle), key=lambda column: (total[column], column))
    drain.run((hosts[column], dict.fromkeys(measured.used, 1 << 62)) for column in order)
