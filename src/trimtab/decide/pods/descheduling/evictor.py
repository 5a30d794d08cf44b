"""Evictions of one descheduling cycle: what each mover may evict, and the limits for all of them together."""

from enum import Enum
from typing import NamedTuple

from trimtab.api.profile import UPSTREAM, Profile
from trimtab.api.selectors import parse_selector
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs, protection_check
from trimtab.decide.pods.fit.fit_elsewhere import ForecastNodeFit, NodeFit
from trimtab.decide.pods.metrics.measurements import UsageMetrics
from trimtab.decide.pods.node_info import PodInfo


class EvictionOutcome(Enum):
    """The result of requesting an eviction."""

    EVICTED = "evicted"
    NAMESPACE_LIMIT = "the eviction limit of the namespace is reached"
    NODE_LIMIT = "the eviction limit of the node is reached"
    TOTAL_LIMIT = "the eviction limit of the cycle is reached"


class PlannedEviction(NamedTuple):
    """A pod to be evicted, and why."""

    pod: PodInfo
    node: str
    strategy: str
    reason: str


class CycleLimits(NamedTuple):
    """The maximum number of evictions of one cycle; None is no limit."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


NO_CYCLE_LIMITS = CycleLimits()


class DeschedulingCycle:
    """One run of all movers over a cluster view: their evictions, and what remains of the limits."""

    def __init__(
        self,
        cluster_view: ClusterView,
        profile: Profile = UPSTREAM,
        limits: CycleLimits = NO_CYCLE_LIMITS,
        metrics: UsageMetrics | None = None,
    ) -> None:
        self.cluster_view = cluster_view
        self.profile = profile
        self.limits = limits
        self.metrics = metrics
        """Measured usage, for movers that use it; None without metrics."""
        self.notes: list[str] = []
        """Movers that could not run, and why."""
        self.evictions: list[PlannedEviction] = []
        self.rejected: list[PlannedEviction] = []
        """Pods that a mover selected and that are not evicted, each with the reason."""
        self.evicted_keys: set[tuple[str, str]] = set()
        self.node_fit = ForecastNodeFit(cluster_view) if profile.descheduler_simulates_moves else NodeFit(cluster_view)
        self._per_node: dict[str, int] = {}
        self._per_namespace: dict[str, int] = {}

    def add_eviction(self, eviction: PlannedEviction) -> EvictionOutcome:
        """Add the eviction, unless a limit is reached."""
        node, namespace = eviction.node, eviction.pod.namespace
        limit = self._reached_limit(node, namespace)
        if limit is not None:
            self.rejected.append(eviction._replace(reason=limit.value))
            return limit
        self._per_node[node] = self._per_node.get(node, 0) + 1
        self._per_namespace[namespace] = self._per_namespace.get(namespace, 0) + 1
        self.evictions.append(eviction)
        self.evicted_keys.add(eviction.pod.key)
        self.node_fit.record_move(eviction.pod)
        return EvictionOutcome.EVICTED

    def _reached_limit(self, node: str, namespace: str) -> EvictionOutcome | None:
        if _is_reached(self.limits.total, len(self.evictions)):
            return EvictionOutcome.TOTAL_LIMIT
        if _is_reached(self.limits.per_node, self._per_node.get(node, 0)):
            return EvictionOutcome.NODE_LIMIT
        if _is_reached(self.limits.per_namespace, self._per_namespace.get(namespace, 0)):
            return EvictionOutcome.NAMESPACE_LIMIT
        return None


def _is_reached(limit: int | None, count: int) -> bool:
    return limit is not None and count >= limit


class MoverRun:
    """One mover's run in a cycle: what it may evict under these arguments."""

    def __init__(self, cycle: DeschedulingCycle, args: EvictorArgs | None = None, strategy: str = "") -> None:
        self.cycle = cycle
        self.args = args or EvictorArgs()
        self.strategy = strategy
        self.cluster_view, self.profile = cycle.cluster_view, cycle.profile
        self._is_protected = protection_check(self.args, cycle.cluster_view, cycle.profile)
        self._checks_fit = self.args.node_fit or cycle.profile.descheduler_simulates_moves
        self._destinations = self._selected_nodes()

    def _selected_nodes(self) -> frozenset[str] | None:
        if not self.args.node_selector:
            return None
        selector = parse_selector(self.args.node_selector)
        return frozenset(node_info.name for node_info in self.cluster_view.nodes if selector.matches(node_info.labels))

    def is_evictable(self, pod: PodInfo) -> bool:
        """Return whether this pod may be evicted at all."""
        if pod.key in self.cycle.evicted_keys:
            return False
        if pod.traits.is_annotated_for_eviction:
            return True
        return not (pod.traits.is_static_pod or pod.is_terminating or self._is_protected(pod))

    def passes_pre_eviction_filter(self, pod: PodInfo) -> bool:
        """The last check before eviction: whether the pod fits elsewhere, and whether its namespace is selected."""
        if self._checks_fit and not self.fits_elsewhere(pod):
            self.reject(pod, "it fits on no other node")
            return False
        selector = self.args.namespace_label_selector
        return selector is None or selector.matches(self.cluster_view.fleet.namespaces.get(pod.namespace, {}))

    def reject(self, pod: PodInfo, reason: str) -> None:
        """Record why a selected pod is not evicted."""
        self.cycle.rejected.append(PlannedEviction(pod, pod.pod.spec.node_name, self.strategy, reason))

    def skip_mover(self, reason: str) -> None:
        """Record why this mover does nothing in this cycle."""
        self.cycle.notes.append(f"{self.strategy} is skipped: {reason}")

    def fits_elsewhere(self, pod: PodInfo) -> bool:
        return self.cycle.node_fit.fits(pod, other_than=pod.pod.spec.node_name, among=self._destinations)

    def fits_anywhere(self, pod: PodInfo) -> bool:
        """Return whether any node, its own included, fits the pod."""
        return self.cycle.node_fit.fits_own_node(pod) or self.cycle.node_fit.fits(
            pod, other_than=pod.pod.spec.node_name
        )

    def fits_among(self, pod: PodInfo, nodes: frozenset[str]) -> bool:
        """Return whether one of these nodes, other than its own, fits the pod."""
        return self.cycle.node_fit.fits(pod, other_than=pod.pod.spec.node_name, among=nodes)

    def evict(self, pod: PodInfo, reason: str) -> EvictionOutcome:
        return self.cycle.add_eviction(PlannedEviction(pod, pod.pod.spec.node_name, self.strategy, reason))
