"""Nodes that are hardly used are emptied, so that they can be given back."""

import numpy as np

from trimtab.decide.pods.descheduling.evictor import Round
from trimtab.decide.pods.descheduling.movers import MoverArgs, Namespaces, mover
from trimtab.decide.pods.metrics.utilisation import Drain, bad_limits, below, resources_of, schedulable, usage
from trimtab.decide.pods.node_info import Resident

ONLY_THRESHOLDING = "OnlyThresholdingResources"


class HighArgs(MoverArgs):
    thresholds: dict[str, float] = {}
    number_of_nodes: int = 0
    eviction_modes: tuple[str, ...] = ()
    evictable_namespaces: Namespaces = Namespaces()

    def complaint(self) -> str:
        if wrong := bad_limits(self.thresholds, "thresholds"):
            return wrong
        if strange := set(self.eviction_modes) - {ONLY_THRESHOLDING}:
            return f"evictionModes: there is no {min(strange)}"
        return "evictableNamespaces: only exclude is known" if self.evictable_namespaces.include else ""


@mover("HighNodeUtilization", args=HighArgs, balances=True)
def high_node_utilization(args: HighArgs, round_: Round) -> None:
    hosts = round_.scene.hosts
    measured = usage(round_.scene, resources_of(args.thresholds))
    idle = below(measured, args.thresholds)
    taking = ~idle & schedulable(round_.scene)
    if not args.number_of_nodes < np.count_nonzero(idle) < len(hosts) or not taking.any():
        return
    limited = frozenset(args.thresholds) if ONLY_THRESHOLDING in args.eviction_modes else frozenset()

    def meant(pod: Resident) -> bool:
        return any(resource in limited for resource in pod.demand.requests)

    targets = [hosts[column] for column in np.flatnonzero(taking)]
    drain = Drain(
        round_=round_,
        targets=targets,
        names=frozenset(here.name for here in targets),
        untainted=any(not here.node.spec.taints for here in targets),
        available={r: int((measured.size[r] - measured.used[r])[taking].sum()) for r in measured.used},
        namespaces=args.evictable_namespaces,
        limit=None,
        reason="its node is hardly used and can be emptied",
        meant=meant if limited else None,
    )
    total = measured.total()
    order = sorted(np.flatnonzero(idle), key=lambda column: (total[column], column))
    drain.run((hosts[column], dict.fromkeys(measured.used, 1 << 62)) for column in order)
