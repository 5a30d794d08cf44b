"""Who may be moved, where they could go, and how many may go in one round."""

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from enum import Enum
from typing import NamedTuple

from trimtab.api.profile import UPSTREAM, Profile
from trimtab.api.selectors import LabelSelector, parse_selector
from trimtab.api.value import Value
from trimtab.decide.pods.host import Resident
from trimtab.decide.pods.room import Foresight, Room
from trimtab.decide.pods.scene import Scene
from trimtab.decide.preempt import SYSTEM_CRITICAL
from trimtab.errors import InputFault

DEFAULT_PROTECTIONS = frozenset(("SystemCriticalPods", "FailedBarePods", "PodsWithLocalStorage", "DaemonSetPods"))


class PriorityThreshold(Value):
    value: int | None = None
    name: str = ""


class ProtectedClass(Value):
    name: str = ""


class ClaimProtection(Value):
    protected_storage_classes: tuple[ProtectedClass, ...] = ()


class ProtectionConfig(Value):
    pods_with_pvc: ClaimProtection | None = None


class PodProtections(Value):
    extra_enabled: tuple[str, ...] = ()
    default_disabled: tuple[str, ...] = ()
    config: ProtectionConfig | None = None


class EvictorArgs(Value):
    """Arguments of the DefaultEvictor, as a DeschedulerPolicy writes them."""

    node_fit: bool = False
    min_replicas: int = 0
    min_pod_age: str = ""
    """A duration, as in `1h30m`."""
    ignore_pvc_pods: bool = False
    ignore_pods_without_pdb: bool = False
    evict_local_storage_pods: bool = False
    evict_daemon_set_pods: bool = False
    evict_system_critical_pods: bool = False
    evict_failed_bare_pods: bool = False
    priority_threshold: PriorityThreshold | None = None
    no_eviction_policy: str = ""
    label_selector: LabelSelector | None = None
    namespace_label_selector: LabelSelector | None = None
    pod_protections: PodProtections = PodProtections()
    node_selector: str = ""
    """The nodes that count as somewhere to go; all, when empty."""

    def protections(self) -> frozenset[str]:
        """The names of what protects a pod; the lists, once used, replace the older switches."""
        chosen = self.pod_protections
        if chosen.extra_enabled or chosen.default_disabled:
            return (DEFAULT_PROTECTIONS - set(chosen.default_disabled)) | set(chosen.extra_enabled)
        off = {
            "SystemCriticalPods": self.evict_system_critical_pods,
            "FailedBarePods": self.evict_failed_bare_pods,
            "PodsWithLocalStorage": self.evict_local_storage_pods,
            "DaemonSetPods": self.evict_daemon_set_pods,
        }
        extra = {"PodsWithPVC": self.ignore_pvc_pods, "PodsWithoutPDB": self.ignore_pods_without_pdb}
        return frozenset(name for name, switched_off in off.items() if not switched_off) | {
            name for name, switched_on in extra.items() if switched_on
        }


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

    def __init__(self, scene: Scene, profile: Profile = UPSTREAM, limits: Limits = NO_LIMITS) -> None:
        self.scene = scene
        self.profile = profile
        self.limits = limits
        self.evictions: list[Eviction] = []
        self.taken: set[tuple[str, str]] = set()
        self.room = Foresight(scene) if profile.descheduler_looks_ahead else Room(scene)
        self._per_node: dict[str, int] = {}
        self._per_namespace: dict[str, int] = {}

    def take(self, eviction: Eviction) -> Answer:
        """Take the pod, unless a limit is reached."""
        node, namespace = eviction.node, eviction.pod.namespace
        if _reached(self.limits.total, len(self.evictions)):
            return Answer.TOTAL_LIMIT
        if _reached(self.limits.per_node, self._per_node.get(node, 0)):
            return Answer.NODE_LIMIT
        if _reached(self.limits.per_namespace, self._per_namespace.get(namespace, 0)):
            return Answer.NAMESPACE_LIMIT
        self._per_node[node] = self._per_node.get(node, 0) + 1
        self._per_namespace[namespace] = self._per_namespace.get(namespace, 0) + 1
        self.evictions.append(eviction)
        self.taken.add(eviction.pod.key)
        self.room.moved(eviction.pod)
        return Answer.EVICTED


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

    def _selected_nodes(self) -> list[str] | None:
        if not self.args.node_selector:
            return None
        selector = parse_selector(self.args.node_selector)
        return [here.name for here in self.scene.hosts if selector.matches(here.labels)]

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
            return False
        wanted = self.args.namespace_label_selector
        return wanted is None or wanted.matches(self.scene.fleet.namespaces.get(pod.namespace, {}))

    def has_room_elsewhere(self, pod: Resident) -> bool:
        return self.cycle.room.fits(pod, other_than=pod.pod.spec.node_name, among=self._destinations)

    def fits_anywhere(self, pod: Resident) -> bool:
        """Whether any node, its own included, could take the pod."""
        return self.cycle.room.suits_own(pod) or self.cycle.room.fits(pod, other_than=pod.pod.spec.node_name)

    def fits_among(self, pod: Resident, nodes: Iterable[str]) -> bool:
        """Whether one of these nodes, other than its own, could take the pod."""
        return self.cycle.room.fits(pod, other_than=pod.pod.spec.node_name, among=nodes)

    def evict(self, pod: Resident, reason: str) -> Answer:
        return self.cycle.take(Eviction(pod, pod.pod.spec.node_name, self.strategy, reason))


Rule = Callable[[Resident], bool]


def protection(args: EvictorArgs, scene: Scene, profile: Profile) -> Rule:
    """Whether anything protects a pod that is otherwise like any other; only what is switched on is asked."""
    active = args.protections()
    rules: list[Rule] = []
    if args.no_eviction_policy == "Mandatory":
        rules.append(_reluctant)
    threshold = _threshold(args.priority_threshold, scene)
    if "SystemCriticalPods" in active:
        # upstream looks at the threshold only while system-critical pods are protected
        rules.append(_at_least(SYSTEM_CRITICAL if threshold is None else min(threshold, SYSTEM_CRITICAL)))
    elif threshold is not None and profile.descheduler_looks_ahead:
        rules.append(_at_least(threshold))
    rules.append(_bare if "FailedBarePods" in active else _bare_unless_failed)
    if "PodsWithLocalStorage" in active:
        rules.append(_local)
    if "DaemonSetPods" in active:
        rules.append(_daemon)
    if "PodsWithPVC" in active:
        rules.append(_claiming(args, scene))
    if "PodsWithoutPDB" in active:
        rules.append(lambda pod: not any(cover.covers(pod) for cover in scene.covers))
    if args.label_selector is not None:
        selector = args.label_selector
        rules.append(lambda pod: not selector.matches(pod.labels))
    if args.min_replicas > 1:
        rules.append(_too_few(args.min_replicas, scene))
    if args.min_pod_age:
        rules.append(_too_young(elapsed(args.min_pod_age), scene))
    return _any_of(tuple(rules))


def _threshold(given: PriorityThreshold | None, scene: Scene) -> int | None:
    if given is None or not given.name:
        return None if given is None else given.value
    if given.name not in scene.priorities:
        raise InputFault(f"priorityThreshold names the PriorityClass {given.name}, which does not exist")
    return scene.priorities[given.name]


def _any_of(rules: tuple[Rule, ...]) -> Rule:
    def protected(pod: Resident) -> bool:
        for rule in rules:  # noqa: SIM110  a plain loop is faster, and this is asked for every pod of a cluster
            if rule(pod):
                return True
        return False

    return protected


def _reluctant(pod: Resident) -> bool:
    return pod.traits.reluctant


def _bare(pod: Resident) -> bool:
    return pod.traits.owners == 0


def _bare_unless_failed(pod: Resident) -> bool:
    return pod.traits.owners == 0 and pod.pod.status.phase != "Failed"


def _local(pod: Resident) -> bool:
    return pod.traits.local_storage


def _daemon(pod: Resident) -> bool:
    return pod.traits.daemon


def _at_least(priority: int) -> Rule:
    return lambda pod: pod.traits.order[0] and pod.priority >= priority


def _claiming(args: EvictorArgs, scene: Scene) -> Rule:
    config = args.pod_protections.config
    classes = config.pods_with_pvc.protected_storage_classes if config and config.pods_with_pvc else ()
    if not classes:
        return lambda pod: bool(pod.traits.claims)
    names = {entry.name for entry in classes}
    known = scene.storage_classes

    def protected(pod: Resident) -> bool:
        found = [known.get((pod.namespace, claim)) for claim in pod.traits.claims]
        return any(name is None or name in names for name in found)  # what cannot be resolved is protected

    return protected


def _too_few(wanted: int, scene: Scene) -> Rule:
    def protected(pod: Resident) -> bool:
        return bool(pod.traits.owner_uid) and scene.siblings[pod.traits.owner_uid] < wanted

    return protected


def _too_young(age: timedelta, scene: Scene) -> Rule:
    def protected(pod: Resident) -> bool:
        started = pod.pod.status.start_time
        return started is None or scene.now - started < age

    return protected


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def elapsed(text: str) -> timedelta:
    """A duration as Go writes it: `1h30m`, `90s`."""
    parts = re.findall(r"([0-9.]+)(h|ms|m|s)", text)
    if "".join(number + unit for number, unit in parts) != text:
        raise InputFault(f"{text!r} is not a duration; write for example 1h30m")
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
