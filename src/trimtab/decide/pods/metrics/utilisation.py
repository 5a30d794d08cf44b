"""Utilisation of nodes by requests or metrics, and evicting pods while other nodes have room for them."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from trimtab.api.value import Raw, Value
from trimtab.decide.fleet import Array
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.evictor import EvictionOutcome, MoverRun
from trimtab.decide.pods.descheduling.movers import NamespaceFilter
from trimtab.decide.pods.fit.requests import Amounts, parse_amounts
from trimtab.decide.pods.metrics.measurements import METRIC_RESOURCES, UsageMetrics
from trimtab.decide.pods.node_info import NodeInfo, PodInfo

BASIC_RESOURCES = ("cpu", "memory", "pods")
KUBERNETES_METRICS, PROMETHEUS = "KubernetesMetrics", "Prometheus"
FULL_PERCENT = 100.0
EVICTION_ORDER = attrgetter("traits.order")

ResourceThresholds = dict[str, float]
"""Percent per resource."""


def thresholds_error(thresholds: ResourceThresholds, field: str) -> str:
    """Return what is wrong with thresholds in percent; empty when they are valid."""
    if not thresholds:
        return f"{field}: at least one resource is required"
    wrong = next((name for name, percent in thresholds.items() if not 0 <= percent <= FULL_PERCENT), None)
    return f"{field}: {wrong} must be between 0 and 100" if wrong else ""


class EvictionLimits(Value):
    node: int | None = None


class MetricsUtilization(Value):
    """Whether measured usage counts instead of requests."""

    source: str = ""
    metrics_server: bool = False
    """The deprecated form of the source KubernetesMetrics."""
    prometheus: Raw = {}

    @property
    def uses_metrics(self) -> bool:
        return self.metrics_server or self.source == KUBERNETES_METRICS

    def validation_error(self) -> str:
        if self.source == PROMETHEUS:
            return "metricsUtilization: the source Prometheus is not supported; use KubernetesMetrics"
        if self.source not in ("", KUBERNETES_METRICS):
            return f"metricsUtilization: unknown source {self.source}"
        if self.source and self.metrics_server:
            return "metricsUtilization: give either the source or metricsServer"
        return "metricsUtilization: prometheus belongs to the source Prometheus" if self.prometheus else ""


def metrics_error(metrics: MetricsUtilization | None, thresholds: ResourceThresholds) -> str:
    """Return what is wrong with the metrics settings; empty when they are valid."""
    if metrics is None or not metrics.uses_metrics:
        return metrics.validation_error() if metrics is not None else ""
    unknown = next((name for name in thresholds if name not in BASIC_RESOURCES), None)
    if unknown is not None:
        return f"metricsUtilization: there are no metrics of {unknown}, only of {', '.join(BASIC_RESOURCES)}"
    return metrics.validation_error()


class NodeUsage(NamedTuple):
    """Requested or used amounts and sizes of all nodes, per resource; columns as in `ClusterView.nodes`."""

    used: dict[str, Array]
    size: dict[str, Array]
    is_reported: dict[str, Array]
    """Whether the node reports the resource at all."""

    def percent(self, resource: str) -> Array:
        size = self.size[resource]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(size > 0, self.used[resource] / size * FULL_PERCENT, 0.0)

    def total(self) -> Array:
        """Millicores plus bytes plus pods: memory dominates, which is how the descheduler sorts nodes."""
        total: Array = np.sum([self.used[resource] for resource in self.used], axis=0)
        return total


def requested_usage(cluster_view: ClusterView, resources: Iterable[str]) -> NodeUsage:
    used, size, having = {}, {}, {}
    sizes = [node_info.allocatable or parse_amounts(node_info.node.status.capacity) for node_info in cluster_view.nodes]
    for resource in resources:
        if resource == "pods":
            numbers = [len(node_info.pods) for node_info in cluster_view.nodes]
        else:
            numbers = [node_info.used.get(resource, 0) for node_info in cluster_view.nodes]
        used[resource] = np.array(numbers, dtype=np.int64)
        size[resource] = np.array([one.get(resource, 0) for one in sizes], dtype=np.int64)
        having[resource] = np.array([resource in one for one in sizes], dtype=bool)
    return NodeUsage(used, size, having)


def measured_usage(
    cluster_view: ClusterView, resources: Iterable[str], metrics: UsageMetrics | None
) -> NodeUsage | str:
    """Return the measured usage of every node instead of its requests; or why it is unknown."""
    if metrics is None:
        return "it uses metrics, and metrics.k8s.io is not available"
    without_metrics = next(
        (
            node_info.name
            for node_info in cluster_view.nodes
            if not _has_all_metrics(metrics.smoothed_usage(node_info.name))
        ),
        None,
    )
    if without_metrics is not None:
        return f"it uses metrics, and there are none of node {without_metrics}"
    requested = requested_usage(cluster_view, resources)
    smoothed = [metrics.smoothed_usage(node_info.name) or {} for node_info in cluster_view.nodes]
    used = {what: np.array([one[what] for one in smoothed], dtype=np.int64) for what in METRIC_RESOURCES}
    return requested._replace(used={**requested.used, **used})


def _has_all_metrics(amounts_: Amounts | None) -> bool:
    return amounts_ is not None and all(what in amounts_ for what in METRIC_RESOURCES)


def resources_of(thresholds: ResourceThresholds) -> tuple[str, ...]:
    """Return the evaluated resources: those with thresholds, and always cpu, memory and pods."""
    return tuple(dict.fromkeys((*thresholds, *BASIC_RESOURCES)))


def nodes_below(usage: NodeUsage, thresholds: ResourceThresholds) -> Array:
    """Return nodes at or below every threshold."""
    mask = np.ones(len(next(iter(usage.used.values()))), dtype=bool)
    for resource, limit in thresholds.items():
        mask &= usage.percent(resource) <= limit
    return mask


def nodes_above(usage: NodeUsage, thresholds: ResourceThresholds) -> Array:
    """Return nodes above at least one threshold."""
    mask = np.zeros(len(next(iter(usage.used.values()))), dtype=bool)
    for resource, limit in thresholds.items():
        mask |= usage.percent(resource) > limit
    return mask


def schedulable_mask(cluster_view: ClusterView) -> Array:
    return np.array([not node_info.node.spec.unschedulable for node_info in cluster_view.nodes], dtype=bool)


class NodeRebalancer(NamedTuple):
    """Evicts pods from source nodes so that they run on target nodes."""

    mover_run: MoverRun
    targets: Sequence[NodeInfo]
    target_names: frozenset[str]
    """The names of the targets."""
    available: dict[str, int]
    """What the targets can still take, per resource; it shrinks with every eviction."""
    namespaces: NamespaceFilter
    max_pods_per_node: int | None
    """The maximum number of evictions per node."""
    reason: str
    has_untainted_target: bool
    """Whether a target has no taints, so that every pod tolerates it."""
    pod_filter: Callable[[PodInfo], bool] | None = None
    """Selects the pods to consider; all pods by default."""
    metrics: UsageMetrics | None = None
    """When set, the measured usage of a pod counts instead of its requests."""

    def run(self, sources: Iterable[tuple[NodeInfo, dict[str, int]]]) -> None:
        """Evict pods from these nodes in order; each comes with the amounts above its threshold."""
        for node_info, excess in sources:
            if self._evict_from_node(node_info, excess) is EvictionOutcome.TOTAL_LIMIT:
                return

    def _evict_from_node(self, node_info: NodeInfo, excess: dict[str, int]) -> EvictionOutcome:
        """`excess` is the amount above the threshold, per resource; the node is done when none is above 0."""
        if not self._should_continue(excess):
            return EvictionOutcome.EVICTED
        evicted = 0
        for pod in sorted(node_info.pods, key=EVICTION_ORDER):
            if (self.pod_filter is not None and not self.pod_filter(pod)) or not self.mover_run.is_evictable(pod):
                continue
            if self.max_pods_per_node is not None and evicted >= self.max_pods_per_node:
                break
            if not self._fits_on_targets(pod):
                continue
            amounts_ = self._amounts_of(pod)
            if amounts_ is None:
                self.mover_run.reject(pod, "there are no metrics of its usage")
                continue
            outcome = self.mover_run.evict(pod, self.reason)
            if outcome is EvictionOutcome.NODE_LIMIT or outcome is EvictionOutcome.TOTAL_LIMIT:
                return outcome
            if outcome is EvictionOutcome.EVICTED:
                evicted += 1
                self._subtract_amounts(amounts_, excess)
                if not self._should_continue(excess):
                    break
        return EvictionOutcome.EVICTED

    def _should_continue(self, excess: dict[str, int]) -> bool:
        return max(excess.values()) > 0 and min(self.available.values()) > 0

    def _fits_on_targets(self, pod: PodInfo) -> bool:
        if not self.namespaces.selects(pod.namespace):
            return False
        if not self.mover_run.profile.descheduler_simulates_moves:
            return self._tolerates_a_target(pod) and self.mover_run.passes_pre_eviction_filter(pod)
        if not self.mover_run.passes_pre_eviction_filter(pod):
            return False
        if self.mover_run.cycle.node_fit.expected_node(pod) in self.target_names or self.mover_run.fits_among(
            pod, self.target_names
        ):
            return True
        self.mover_run.reject(pod, "it fits on none of the target nodes")
        return False

    def _tolerates_a_target(self, pod: PodInfo) -> bool:
        """Return whether the pod tolerates all taints of a target (any effect), with at least as many tolerations."""
        if self.has_untainted_target:
            return True
        tolerations = pod.pod.spec.tolerations
        return any(
            len(tolerations) >= len(taints)
            and all(any(toleration.tolerates(taint) for toleration in tolerations) for taint in taints)
            for taints in (node_info.node.spec.taints for node_info in self.targets)
        )

    def _amounts_of(self, pod: PodInfo) -> Amounts | None:
        """Return the amounts that move with the pod; None when unknown."""
        if self.metrics is None:
            return pod.resources.requests
        used = self.metrics.pods.get(pod.key)
        return used if _has_all_metrics(used) else None

    def _subtract_amounts(self, amounts_: Amounts, excess: dict[str, int]) -> None:
        for resource in self.available:
            amount = 1 if resource == "pods" else amounts_.get(resource, 0)
            excess[resource] -= amount
            self.available[resource] -= amount
