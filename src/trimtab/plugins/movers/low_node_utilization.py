"""Evict pods of overutilised nodes as long as underutilised nodes have capacity for them."""

import numpy as np

from trimtab.decide.fleet import Array
from trimtab.decide.pods.descheduling.evictor import MoverRun
from trimtab.decide.pods.descheduling.movers import MoverArgs, NamespaceFilter, mover
from trimtab.decide.pods.metrics.utilisation import (
    FULL_PERCENT,
    EvictionLimits,
    MetricsUtilization,
    NodeRebalancer,
    NodeUsage,
    ResourceThresholds,
    measured_usage,
    metrics_error,
    nodes_above,
    nodes_below,
    requested_usage,
    resources_of,
    schedulable_mask,
    thresholds_error,
)

REQUESTS_REASON = "the requests on its node are above the target thresholds, and other nodes are underutilized"
USAGE_REASON = "the measured usage of its node is above the target thresholds, and other nodes are underutilized"


class LowNodeUtilizationArgs(MoverArgs):
    use_deviation_thresholds: bool = False
    thresholds: dict[str, float] = {}
    target_thresholds: dict[str, float] = {}
    number_of_nodes: int = 0
    evictable_namespaces: NamespaceFilter = NamespaceFilter()
    eviction_limits: EvictionLimits = EvictionLimits()
    metrics_utilization: MetricsUtilization | None = None

    def validation_error(self) -> str:
        low, high = self.thresholds, self.target_thresholds
        if wrong := thresholds_error(low, "thresholds") or thresholds_error(high, "targetThresholds"):
            return wrong
        if low.keys() != high.keys():
            return "thresholds and targetThresholds must name the same resources"
        above = next((name for name in low if low[name] > high[name]), None)
        if above is not None and not self.use_deviation_thresholds:
            return f"the threshold of {above} is above its targetThreshold"
        if self.evictable_namespaces.include:
            return "evictableNamespaces: only exclude is supported"
        return metrics_error(self.metrics_utilization, low)

    @property
    def uses_metrics(self) -> bool:
        return self.metrics_utilization is not None and self.metrics_utilization.uses_metrics


@mover("LowNodeUtilization", args=LowNodeUtilizationArgs, balances=True)
def low_node_utilization(args: LowNodeUtilizationArgs, mover_run: MoverRun) -> None:
    hosts = mover_run.cluster_view.nodes
    resources, measures = resources_of(args.thresholds), mover_run.cycle.metrics if args.uses_metrics else None
    measured = (
        measured_usage(mover_run.cluster_view, resources, measures)
        if args.uses_metrics
        else requested_usage(mover_run.cluster_view, resources)
    )
    if isinstance(measured, str):
        mover_run.skip_mover(measured)
        return
    low, high = effective_thresholds(args, measured)
    idle = nodes_below(measured, low) & schedulable_mask(mover_run.cluster_view)
    crowded = nodes_above(measured, high) & ~idle
    if not args.number_of_nodes < np.count_nonzero(idle) < len(hosts) or not crowded.any():
        return
    aims = {
        resource: (size * (high[resource] * 0.01)).astype(np.int64) if resource in high else size
        for resource, size in measured.size.items()
    }
    targets = [hosts[column] for column in np.flatnonzero(idle)]
    drain = NodeRebalancer(
        mover_run=mover_run,
        targets=targets,
        target_names=frozenset(node_info.name for node_info in targets),
        has_untainted_target=any(not node_info.node.spec.taints for node_info in targets),
        available={r: int((aims[r] - measured.used[r])[idle].sum()) for r in measured.used},
        namespaces=args.evictable_namespaces,
        max_pods_per_node=args.eviction_limits.node,
        reason=USAGE_REASON if args.uses_metrics else REQUESTS_REASON,
        metrics=measures,
    )
    rank = _percent_above_limit(measured, high) if mover_run.profile.descheduler_simulates_moves else measured.total()
    order = sorted(np.flatnonzero(crowded), key=lambda column: (-rank[column], column))
    drain.run(
        (hosts[column], {r: int(measured.used[r][column] - aims[r][column]) for r in measured.used}) for column in order
    )


def _percent_above_limit(measured: NodeUsage, high: ResourceThresholds) -> Array:
    """How far each node is above its most exceeded limit: percentages are comparable, bytes and milli-cpu are not."""
    worst: Array = np.max([measured.percent(resource) - limit for resource, limit in high.items()], axis=0)
    return worst


def effective_thresholds(
    args: LowNodeUtilizationArgs, measured: NodeUsage
) -> tuple[ResourceThresholds, ResourceThresholds]:
    """The two thresholds; as deviations they are relative to the current average."""
    if not args.use_deviation_thresholds:
        return args.thresholds, args.target_thresholds
    average = {resource: _average(measured, resource) for resource in args.thresholds}
    low = {r: min(FULL_PERCENT, max(0.0, average[r] - args.thresholds[r])) for r in args.thresholds}
    return low, {r: min(FULL_PERCENT, max(0.0, average[r] + args.target_thresholds[r])) for r in args.target_thresholds}


def _average(measured: NodeUsage, resource: str) -> float:
    """Over the nodes that have the resource."""
    having = measured.is_reported[resource]
    return float(measured.percent(resource)[having].mean()) if having.any() else 0.0
