"""Evictions of one descheduling cycle: what each mover may evict, and the limits for all of them together."""

from enum import Enum
from typing import NamedTuple

from trimtab.api.profile import UPSTREAM, Profile
from trimtab.api.selectors import parse_selector
from trimtab.decide.pods.descheduling.cluster_view import Scene
from trimtab.decide.pods.descheduling.evictor_filter import EvictorArgs, protection
from trimtab.decide.pods.fit.fit_elsewhere import Foresight, Room
from trimtab.decide.pods.metrics.measurements import Measures
from trimtab.decide.pods.node_info import Resident


class Answer(Enum):
    """The result of requesting an eviction."""

    EVICTED = "evicted"
    NAMESPACE_LIMIT = "the eviction limit of the namespace is reached"
    NODE_LIMIT = "the eviction limit of the node is reached"
    TOTAL_LIMIT = "the eviction limit of the cycle is reached"


class Eviction(NamedTuple):
    """A pod to be evicted, and why."""

    pod: Resident
    node: str
    strategy: str
    reason: str


class Limits(NamedTuple):
    """The maximum number of evictions of one cycle; None is no limit."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


NO_LIMITS = Limits()


class Cycle:
    """One run of all movers over a cluster view: their evictions, and what remains of the limits."""

    def __init__(
        self,
        scene: Scene,
        profile: Profile = UPSTREAM,
        limits: Limits = NO_LIMITS,
        measures: Measures | None = None,
    ) -> None:
        self.scene = scene
        self.profile = profile
        self.limits = limits
        self.measures = measures
        """Measured usage, for movers that use it; None without metrics."""
        self.notes: list[str] = []
        """Movers that could not run, and why."""
        self.evictions: list[Eviction] = []
        self.refused: list[Eviction] = []
        """Pods that a mover selected and that are not evicted, each with the reason."""
        self.taken: set[tuple[str, str]] = set()
        self.room = Foresight(scene) if profile.descheduler_simulates_moves else Room(scene)
        self._per_node: dict[str, int] = {}
        self._per_namespace: dict[str, int] = {}

    def take(self, eviction: Eviction) -> Answer:
        """Add the eviction, unless a limit is reached."""
        node, namespace = eviction.node, eviction.pod.namespace
        limit = self._limit(node, namespace)
        if limit is not None:
            self.refused.append(eviction._replace(reason=limit.value))
            return limit
        self._per_node[node] = self._per_node.get(node, 0) + 1
        self._per_namespace[namespace] = self._per_namespace.get(namespace, 0) + 1
        self.evictions.append(eviction)
        self.taken.add(eviction.pod.key)
        self.room.moved(eviction.pod)
        return Answer.EVICTED

    def _limit(self, node: str, namespace: str) -> Answer | None:
        if _reached(self.limits.total, len(self.evictions)):
            return Answer.TOTAL_LIMIT
        if _reached(self.limits.per_node, self._per_node.get(node, 0)):
            return Answer.NODE_LIMIT
        if _reached(self.limits.per_namespace, self._per_namespace.get(namespace, 0)):
            return Answer.NAMESPACE_LIMIT
        return None


def _reached(limit: int | None, taken: int) -> bool:
    return limit is not None and taken >= limit


class Round:
    """One mover's run in a cycle: what it may evict under these arguments."""

    def __init__(self, cycle: Cycle, args: EvictorArgs | None = None, strategy: str = "") -> None:
        self.cycle = cycle
        self.args = args or EvictorArgs()
        self.strategy = strategy
        self.scene, self.profile = cycle.scene, cycle.profile
        self._protected = protection(self.args, cycle.scene, cycle.profile)
        self._checks_fit = self.args.node_fit or cycle.profile.descheduler_simulates_moves
        self._destinations = self._selected_nodes()

    def _selected_nodes(self) -> frozenset[str] | None:
        if not self.args.node_selector:
            return None
        selector = parse_selector(self.args.node_selector)
        return frozenset(node_info.name for node_info in self.scene.hosts if selector.matches(node_info.labels))

    def evictable(self, pod: Resident) -> bool:
        """Return whether this pod may be evicted at all."""
        if pod.key in self.cycle.taken:
            return False
        if pod.traits.invited:
            return True
        return not (pod.traits.immovable or pod.terminating or self._protected(pod))

    def ready_to_go(self, pod: Resident) -> bool:
        """The last check before eviction: whether the pod fits elsewhere, and whether its namespace is selected."""
        if self._checks_fit and not self.has_room_elsewhere(pod):
            self.spare(pod, "no other node would take it")
            return False
        selector = self.args.namespace_label_selector
        return selector is None or selector.matches(self.scene.fleet.namespaces.get(pod.namespace, {}))

    def spare(self, pod: Resident, reason: str) -> None:
        """Record why a selected pod is not evicted."""
        self.cycle.refused.append(Eviction(pod, pod.pod.spec.node_name, self.strategy, reason))

    def give_up(self, reason: str) -> None:
        """Record why this mover does nothing in this cycle."""
        self.cycle.notes.append(f"{self.strategy} is off: {reason}")

    def has_room_elsewhere(self, pod: Resident) -> bool:
        return self.cycle.room.fits(pod, other_than=pod.pod.spec.node_name, among=self._destinations)

    def fits_anywhere(self, pod: Resident) -> bool:
        """Return whether any node, its own included, fits the pod."""
        return self.cycle.room.suits_own(pod) or self.cycle.room.fits(pod, other_than=pod.pod.spec.node_name)

    def fits_among(self, pod: Resident, nodes: frozenset[str]) -> bool:
        """Return whether one of these nodes, other than its own, fits the pod."""
        return self.cycle.room.fits(pod, other_than=pod.pod.spec.node_name, among=nodes)

    def evict(self, pod: Resident, reason: str) -> Answer:
        return self.cycle.take(Eviction(pod, pod.pod.spec.node_name, self.strategy, reason))
