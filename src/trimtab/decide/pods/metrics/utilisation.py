"""Utilisation of nodes by requests or metrics, and evicting pods while other nodes have room for them."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from trimtab.api.value import Raw, Value
from trimtab.decide.fleet import Array
from trimtab.decide.pods.descheduling.cluster_view import Scene
from trimtab.decide.pods.descheduling.evictor import Answer, Round
from trimtab.decide.pods.descheduling.movers import Namespaces
from trimtab.decide.pods.fit.requests import Amounts, amounts
from trimtab.decide.pods.metrics.measurements import MEASURED, Measures
from trimtab.decide.pods.node_info import Host, Resident

BASIC = ("cpu", "memory", "pods")
KUBERNETES_METRICS, PROMETHEUS = "KubernetesMetrics", "Prometheus"
FULL = 100.0
ORDER = attrgetter("traits.order")

Limits = dict[str, float]
"""Percent per resource."""


def bad_limits(limits: Limits, what: str) -> str:
    """Return what is wrong with thresholds in percent; empty when they are valid."""
    if not limits:
        return f"{what}: no resource is named"
    wrong = next((name for name, percent in limits.items() if not 0 <= percent <= FULL), None)
    return f"{what}: {wrong} must be between 0 and 100" if wrong else ""


class EvictionLimits(Value):
    node: int | None = None


class MetricsUtilization(Value):
    """Whether measured usage counts instead of requests."""

    source: str = ""
    metrics_server: bool = False
    """The deprecated form of the source KubernetesMetrics."""
    prometheus: Raw = {}

    @property
    def measured(self) -> bool:
        return self.metrics_server or self.source == KUBERNETES_METRICS

    def complaint(self) -> str:
        if self.source == PROMETHEUS:
            return "metricsUtilization: Prometheus is not asked; what metrics.k8s.io serves can be (source: KubernetesMetrics)"
        if self.source not in ("", KUBERNETES_METRICS):
            return f"metricsUtilization: there is no source {self.source}"
        if self.source and self.metrics_server:
            return "metricsUtilization: give either the source or metricsServer"
        return "metricsUtilization: prometheus belongs to the source Prometheus" if self.prometheus else ""


def bad_metrics(metrics: MetricsUtilization | None, limits: Limits) -> str:
    """Return what is wrong with the metrics settings; empty when they are valid."""
    if metrics is None or not metrics.measured:
        return metrics.complaint() if metrics is not None else ""
    unknown = next((name for name in limits if name not in BASIC), None)
    if unknown is not None:
        return f"metricsUtilization: nobody measures {unknown}, only {', '.join(BASIC)}"
    return metrics.complaint()


class Usage(NamedTuple):
    """Requested or used amounts and sizes of all nodes, per resource; columns as in `ClusterView.nodes`."""

    used: dict[str, Array]
    size: dict[str, Array]
    having: dict[str, Array]
    """Whether the node reports the resource at all."""

    def percent(self, resource: str) -> Array:
        size = self.size[resource]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(size > 0, self.used[resource] / size * FULL, 0.0)

    def total(self) -> Array:
        """Millicores plus bytes plus pods: memory dominates, which is how the descheduler sorts nodes."""
        total: Array = np.sum([self.used[resource] for resource in self.used], axis=0)
        return total


def usage(scene: Scene, resources: Iterable[str]) -> Usage:
    used, size, having = {}, {}, {}
    sizes = [node_info.allocatable or amounts(node_info.node.status.capacity) for node_info in scene.hosts]
    for resource in resources:
        if resource == "pods":
            numbers = [len(node_info.residents) for node_info in scene.hosts]
        else:
            numbers = [node_info.used.get(resource, 0) for node_info in scene.hosts]
        used[resource] = np.array(numbers, dtype=np.int64)
        size[resource] = np.array([one.get(resource, 0) for one in sizes], dtype=np.int64)
        having[resource] = np.array([resource in one for one in sizes], dtype=bool)
    return Usage(used, size, having)


def really_used(scene: Scene, resources: Iterable[str], measures: Measures | None) -> Usage | str:
    """Return the measured usage of every node instead of its requests; or why it is unknown."""
    if measures is None:
        return "it counts what is really used, and nothing tells that here (metrics.k8s.io)"
    without_metrics = next(
        (node_info.name for node_info in scene.hosts if not _is_told(measures.steady(node_info.name))), None
    )
    if without_metrics is not None:
        return f"it counts what is really used, and nothing tells what {without_metrics} uses"
    requested = usage(scene, resources)
    smoothed = [measures.steady(node_info.name) or {} for node_info in scene.hosts]
    used = {what: np.array([one[what] for one in smoothed], dtype=np.int64) for what in MEASURED}
    return requested._replace(used={**requested.used, **used})


def _is_told(amounts_: Amounts | None) -> bool:
    return amounts_ is not None and all(what in amounts_ for what in MEASURED)


def resources_of(limits: Limits) -> tuple[str, ...]:
    """Return the evaluated resources: those with thresholds, and always cpu, memory and pods."""
    return tuple(dict.fromkeys((*limits, *BASIC)))


def below(measured: Usage, limits: Limits) -> Array:
    """Return nodes at or below every threshold."""
    mask = np.ones(len(next(iter(measured.used.values()))), dtype=bool)
    for resource, limit in limits.items():
        mask &= measured.percent(resource) <= limit
    return mask


def above(measured: Usage, limits: Limits) -> Array:
    """Return nodes above at least one threshold."""
    mask = np.zeros(len(next(iter(measured.used.values()))), dtype=bool)
    for resource, limit in limits.items():
        mask |= measured.percent(resource) > limit
    return mask


def schedulable(scene: Scene) -> Array:
    return np.array([not node_info.node.spec.unschedulable for node_info in scene.hosts], dtype=bool)


class Drain(NamedTuple):
    """Evicts pods from source nodes so that they run on target nodes."""

    round_: Round
    targets: Sequence[Host]
    names: frozenset[str]
    """The names of the targets."""
    available: dict[str, int]
    """What the targets can still take, per resource; it shrinks with every eviction."""
    namespaces: Namespaces
    limit: int | None
    """The maximum number of evictions per node."""
    reason: str
    untainted: bool
    """Whether a target has no taints, so that every pod tolerates it."""
    meant: Callable[[Resident], bool] | None = None
    """Selects the pods to consider; all pods by default."""
    measures: Measures | None = None
    """When set, the measured usage of a pod counts instead of its requests."""

    def run(self, sources: Iterable[tuple[Host, dict[str, int]]]) -> None:
        """Evict pods from these nodes in order; each comes with the amounts above its threshold."""
        for node_info, excess in sources:
            if self._drain(node_info, excess) is Answer.TOTAL_LIMIT:
                return

    def _drain(self, here: Host, excess: dict[str, int]) -> Answer:
        """`excess` is the amount above the threshold, per resource; the node is done when none is above 0."""
        if not self._goes_on(excess):
            return Answer.EVICTED
        evicted = 0
        for pod in sorted(here.residents, key=ORDER):
            if (self.meant is not None and not self.meant(pod)) or not self.round_.evictable(pod):
                continue
            if self.limit is not None and evicted >= self.limit:
                break
            if not self._wanted_elsewhere(pod):
                continue
            amounts_ = self._amounts(pod)
            if amounts_ is None:
                self.round_.spare(pod, "there are no metrics of its usage")
                continue
            outcome = self.round_.evict(pod, self.reason)
            if outcome is Answer.NODE_LIMIT or outcome is Answer.TOTAL_LIMIT:
                return outcome
            if outcome is Answer.EVICTED:
                evicted += 1
                self._pay(amounts_, excess)
                if not self._goes_on(excess):
                    break
        return Answer.EVICTED

    def _goes_on(self, excess: dict[str, int]) -> bool:
        return max(excess.values()) > 0 and min(self.available.values()) > 0

    def _wanted_elsewhere(self, pod: Resident) -> bool:
        if not self.namespaces.admit(pod.namespace):
            return False
        if not self.round_.profile.descheduler_simulates_moves:
            return self._tolerates_some(pod) and self.round_.ready_to_go(pod)
        if not self.round_.ready_to_go(pod):
            return False
        if self.round_.cycle.room.expects(pod) in self.names or self.round_.fits_among(pod, self.names):
            return True
        self.round_.spare(pod, "it fits on none of the target nodes")
        return False

    def _tolerates_some(self, pod: Resident) -> bool:
        """Return whether the pod tolerates all taints of a target (any effect), with at least as many tolerations."""
        if self.untainted:
            return True
        tolerations = pod.pod.spec.tolerations
        return any(
            len(tolerations) >= len(taints)
            and all(any(toleration.tolerates(taint) for toleration in tolerations) for taint in taints)
            for taints in (node_info.node.spec.taints for node_info in self.targets)
        )

    def _amounts(self, pod: Resident) -> Amounts | None:
        """Return the amounts that move with the pod; None when unknown."""
        if self.measures is None:
            return pod.demand.requests
        used = self.measures.pods.get(pod.key)
        return used if _is_told(used) else None

    def _pay(self, amounts_: Amounts, excess: dict[str, int]) -> None:
        for resource in self.available:
            amount = 1 if resource == "pods" else amounts_.get(resource, 0)
            excess[resource] -= amount
            self.available[resource] -= amount
