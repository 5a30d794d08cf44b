"""How much of each node is requested or used, and draining some nodes as long as the others have room for it."""

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
    """What is wrong with limits in percent; empty when nothing is."""
    if not limits:
        return f"{what}: no resource is named"
    wrong = next((name for name, percent in limits.items() if not 0 <= percent <= FULL), None)
    return f"{what}: {wrong} must be between 0 and 100" if wrong else ""


class EvictionLimits(Value):
    node: int | None = None


class MetricsUtilization(Value):
    """Whether what is really used counts instead of what is requested."""

    source: str = ""
    metrics_server: bool = False
    """An older word for the source KubernetesMetrics."""
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
    """What is wrong with counting use; empty when nothing is."""
    if metrics is None or not metrics.measured:
        return metrics.complaint() if metrics is not None else ""
    strange = next((name for name in limits if name not in BASIC), None)
    if strange is not None:
        return f"metricsUtilization: nobody measures {strange}, only {', '.join(BASIC)}"
    return metrics.complaint()


class Usage(NamedTuple):
    """What is requested of every node, or used on it, and what every node has, per resource; columns as `Scene.hosts`."""

    used: dict[str, Array]
    size: dict[str, Array]
    having: dict[str, Array]
    """Whether a node speaks of the resource at all."""

    def percent(self, resource: str) -> Array:
        size = self.size[resource]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(size > 0, self.used[resource] / size * FULL, 0.0)

    def total(self) -> Array:
        """Thousandths of cpu plus bytes plus pods: memory decides, which is how the descheduler sorts nodes."""
        together: Array = np.sum([self.used[resource] for resource in self.used], axis=0)
        return together


def usage(scene: Scene, resources: Iterable[str]) -> Usage:
    used, size, having = {}, {}, {}
    sizes = [here.allocatable or amounts(here.node.status.capacity) for here in scene.hosts]
    for resource in resources:
        if resource == "pods":
            numbers = [len(here.residents) for here in scene.hosts]
        else:
            numbers = [here.used.get(resource, 0) for here in scene.hosts]
        used[resource] = np.array(numbers, dtype=np.int64)
        size[resource] = np.array([one.get(resource, 0) for one in sizes], dtype=np.int64)
        having[resource] = np.array([resource in one for one in sizes], dtype=bool)
    return Usage(used, size, having)


def really_used(scene: Scene, resources: Iterable[str], measures: Measures | None) -> Usage | str:
    """What every node uses instead of what is requested of it; or why nobody can tell."""
    if measures is None:
        return "it counts what is really used, and nothing tells that here (metrics.k8s.io)"
    silent = next((here.name for here in scene.hosts if not _is_told(measures.steady(here.name))), None)
    if silent is not None:
        return f"it counts what is really used, and nothing tells what {silent} uses"
    requested = usage(scene, resources)
    steady = [measures.steady(here.name) or {} for here in scene.hosts]
    used = {what: np.array([one[what] for one in steady], dtype=np.int64) for what in MEASURED}
    return requested._replace(used={**requested.used, **used})


def _is_told(amounts_: Amounts | None) -> bool:
    return amounts_ is not None and all(what in amounts_ for what in MEASURED)


def resources_of(limits: Limits) -> tuple[str, ...]:
    """The resources looked at: those limited, and always cpu, memory and pods."""
    return tuple(dict.fromkeys((*limits, *BASIC)))


def below(measured: Usage, limits: Limits) -> Array:
    """Nodes that are at or below every limit."""
    mask = np.ones(len(next(iter(measured.used.values()))), dtype=bool)
    for resource, limit in limits.items():
        mask &= measured.percent(resource) <= limit
    return mask


def above(measured: Usage, limits: Limits) -> Array:
    """Nodes that are above some limit."""
    mask = np.zeros(len(next(iter(measured.used.values()))), dtype=bool)
    for resource, limit in limits.items():
        mask |= measured.percent(resource) > limit
    return mask


def schedulable(scene: Scene) -> Array:
    return np.array([not here.node.spec.unschedulable for here in scene.hosts], dtype=bool)


class Drain(NamedTuple):
    """Taking pods from some nodes for the good of others."""

    round_: Round
    targets: Sequence[Host]
    names: frozenset[str]
    """Of the targets."""
    available: dict[str, int]
    """What the targets can still take, per resource; it shrinks with every pod taken."""
    namespaces: Namespaces
    limit: int | None
    """Pods to take from one node at most."""
    reason: str
    untainted: bool
    """Some target has no taints at all, so that every pod tolerates it."""
    meant: Callable[[Resident], bool] | None = None
    """Which pods are looked at; all, when not given."""
    measures: Measures | None = None
    """When given, a pod takes with it what it uses, not what it requests."""

    def run(self, sources: Iterable[tuple[Host, dict[str, int]]]) -> None:
        """Drain these nodes in order; each comes with what it may exceed before it is drained no more."""
        for here, excess in sources:
            if self._drain(here, excess) is Answer.TOTAL_LIMIT:
                return

    def _drain(self, here: Host, excess: dict[str, int]) -> Answer:
        """`excess` is how much is used beyond the aim, per resource; when none is above 0 the node is done."""
        if not self._goes_on(excess):
            return Answer.EVICTED
        taken = 0
        for pod in sorted(here.residents, key=ORDER):
            if (self.meant is not None and not self.meant(pod)) or not self.round_.evictable(pod):
                continue
            if self.limit is not None and taken >= self.limit:
                break
            if not self._wanted_elsewhere(pod):
                continue
            amounts_ = self._amounts(pod)
            if amounts_ is None:
                self.round_.spare(pod, "nothing tells what it uses")
                continue
            answer = self.round_.evict(pod, self.reason)
            if answer is Answer.NODE_LIMIT or answer is Answer.TOTAL_LIMIT:
                return answer
            if answer is Answer.EVICTED:
                taken += 1
                self._pay(amounts_, excess)
                if not self._goes_on(excess):
                    break
        return Answer.EVICTED

    def _goes_on(self, excess: dict[str, int]) -> bool:
        return max(excess.values()) > 0 and min(self.available.values()) > 0

    def _wanted_elsewhere(self, pod: Resident) -> bool:
        if not self.namespaces.admit(pod.namespace):
            return False
        if not self.round_.profile.descheduler_looks_ahead:
            return self._tolerates_some(pod) and self.round_.ready_to_go(pod)
        if not self.round_.ready_to_go(pod):
            return False
        if self.round_.cycle.room.expects(pod) in self.names or self.round_.fits_among(pod, self.names):
            return True
        self.round_.spare(pod, "none of the nodes that should take it would")
        return False

    def _tolerates_some(self, pod: Resident) -> bool:
        """Whether a target's taints, of every effect, are all tolerated, by at least as many tolerations."""
        if self.untainted:
            return True
        tolerations = pod.pod.spec.tolerations
        return any(
            len(tolerations) >= len(taints)
            and all(any(toleration.covers(taint) for toleration in tolerations) for taint in taints)
            for taints in (here.node.spec.taints for here in self.targets)
        )

    def _amounts(self, pod: Resident) -> Amounts | None:
        """What goes with the pod; None when nobody knows."""
        if self.measures is None:
            return pod.demand.requests
        used = self.measures.pods.get(pod.key)
        return used if _is_told(used) else None

    def _pay(self, amounts_: Amounts, excess: dict[str, int]) -> None:
        for resource in self.available:
            amount = 1 if resource == "pods" else amounts_.get(resource, 0)
            excess[resource] -= amount
            self.available[resource] -= amount
