"""Who takes pods in one cycle of moves: what each mover may take, and how many all may take together."""

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
    """What came of asking for an eviction."""

    EVICTED = "evicted"
    NAMESPACE_LIMIT = "the namespace has given enough"
    NODE_LIMIT = "the node has given enough"
    TOTAL_LIMIT = "the round has taken enough"


class Eviction(NamedTuple):
    """A pod to be moved, and why."""

    pod: Resident
    node: str
    strategy: str
    reason: str


class Limits(NamedTuple):
    """How many pods one cycle may take; None is no limit."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


NO_LIMITS = Limits()


class Cycle:
    """One pass of all movers over one scene: what they took together, and what is left of the limits."""

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
        """What is really used, for movers that ask; None where nothing tells."""
        self.notes: list[str] = []
        """What a mover could not do at all, and why."""
        self.evictions: list[Eviction] = []
        self.refused: list[Eviction] = []
        """Those that a mover meant and that stay all the same, each with the reason why."""
        self.taken: set[tuple[str, str]] = set()
        self.room = Foresight(scene) if profile.descheduler_looks_ahead else Room(scene)
        self._per_node: dict[str, int] = {}
        self._per_namespace: dict[str, int] = {}

    def take(self, eviction: Eviction) -> Answer:
        """Take the pod, unless a limit is reached."""
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
    """One mover's turn in a cycle: whom it may take under these arguments."""

    def __init__(self, cycle: Cycle, args: EvictorArgs | None = None, strategy: str = "") -> None:
        self.cycle = cycle
        self.args = args or EvictorArgs()
        self.strategy = strategy
        self.scene, self.profile = cycle.scene, cycle.profile
        self._protected = protection(self.args, cycle.scene, cycle.profile)
        self._checks_fit = self.args.node_fit or cycle.profile.descheduler_looks_ahead
        self._destinations = self._selected_nodes()

    def _selected_nodes(self) -> frozenset[str] | None:
        if not self.args.node_selector:
            return None
        selector = parse_selector(self.args.node_selector)
        return frozenset(here.name for here in self.scene.hosts if selector.matches(here.labels))

    def evictable(self, pod: Resident) -> bool:
        """May this pod be moved at all."""
        if pod.key in self.cycle.taken:
            return False
        if pod.traits.invited:
            return True
        return not (pod.traits.immovable or pod.terminating or self._protected(pod))

    def ready_to_go(self, pod: Resident) -> bool:
        """The last question before it is moved: has it somewhere to go, and is its namespace meant."""
        if self._checks_fit and not self.has_room_elsewhere(pod):
            self.spare(pod, "no other node would take it")
            return False
        wanted = self.args.namespace_label_selector
        return wanted is None or wanted.matches(self.scene.fleet.namespaces.get(pod.namespace, {}))

    def spare(self, pod: Resident, reason: str) -> None:
        """Say why a pod that was meant stays."""
        self.cycle.refused.append(Eviction(pod, pod.pod.spec.node_name, self.strategy, reason))

    def give_up(self, reason: str) -> None:
        """This mover does nothing in this cycle."""
        self.cycle.notes.append(f"{self.strategy} is off: {reason}")

    def has_room_elsewhere(self, pod: Resident) -> bool:
        return self.cycle.room.fits(pod, other_than=pod.pod.spec.node_name, among=self._destinations)

    def fits_anywhere(self, pod: Resident) -> bool:
        """Whether any node, its own included, could take the pod."""
        return self.cycle.room.suits_own(pod) or self.cycle.room.fits(pod, other_than=pod.pod.spec.node_name)

    def fits_among(self, pod: Resident, nodes: frozenset[str]) -> bool:
        """Whether one of these nodes, other than its own, could take the pod."""
        return self.cycle.room.fits(pod, other_than=pod.pod.spec.node_name, among=nodes)

    def evict(self, pod: Resident, reason: str) -> Answer:
        return self.cycle.take(Eviction(pod, pod.pod.spec.node_name, self.strategy, reason))
