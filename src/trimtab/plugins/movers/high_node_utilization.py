"""Empty underutilised nodes, so that they can be removed."""

import numpy as np

from trimtab.decide.pods.descheduling.evictor import MoverRun
from trimtab.decide.pods.descheduling.movers import MoverArgs, NamespaceFilter, mover
from trimtab.decide.pods.metrics.utilisation import (
    NodeRebalancer,
    nodes_below,
    requested_usage,
    resources_of,
    schedulable_mask,
    thresholds_error,
)
from trimtab.decide.pods.node_info import PodInfo

ONLY_THRESHOLDING = "OnlyThresholdingResources"


class HighNodeUtilizationArgs(MoverArgs):
    thresholds: dict[str, float] = {}
    number_of_nodes: int = 0
    eviction_modes: tuple[str, ...] = ()
    evictable_namespaces: NamespaceFilter = NamespaceFilter()

    def validation_error(self) -> str:
        if wrong := thresholds_error(self.thresholds, "thresholds"):
            return wrong
        if unknown := set(self.eviction_modes) - {ONLY_THRESHOLDING}:
            return f"evictionModes: there is no {min(unknown)}"
        return "evictableNamespaces: only exclude is supported" if self.evictable_namespaces.include else ""


@mover("HighNodeUtilization", args=HighNodeUtilizationArgs, balances=True)
def high_node_utilization(args: HighNodeUtilizationArgs, mover_run: MoverRun) -> None:
    hosts = mover_run.cluster_view.nodes
    measured = requested_usage(mover_run.cluster_view, resources_of(args.thresholds))
    idle = nodes_below(measured, args.thresholds)
    targets_mask = ~idle & schedulable_mask(mover_run.cluster_view)
    if not args.number_of_nodes < np.count_nonzero(idle) < len(hosts) or not targets_mask.any():
        return
    limited = frozenset(args.thresholds) if ONLY_THRESHOLDING in args.eviction_modes else frozenset()

    def meant(pod: PodInfo) -> bool:
        return any(resource in limited for resource in pod.resources.requests)

    targets = [hosts[column] for column in np.flatnonzero(targets_mask)]
    drain = NodeRebalancer(
        mover_run=mover_run,
        targets=targets,
        target_names=frozenset(node_info.name for node_info in targets),
        has_untainted_target=any(not node_info.node.spec.taints for node_info in targets),
        available={r: int((measured.size[r] - measured.used[r])[targets_mask].sum()) for r in measured.used},
        namespaces=args.evictable_namespaces,
        max_pods_per_node=None,
        reason="its node is underutilized and can be emptied",
        pod_filter=meant if limited else None,
    )
    total = measured.total()
    order = sorted(np.flatnonzero(idle), key=lambda column: (total[column], column))
    drain.run((hosts[column], dict.fromkeys(measured.used, 1 << 62)) for column in order)
