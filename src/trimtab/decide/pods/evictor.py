"""Who may be moved, where they could go, and how many may go in one round."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from trimtab.api.profile import UPSTREAM, Profile
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Value
from trimtab.decide.pods.host import Resident
from trimtab.decide.pods.room import Foresight, Room
from trimtab.decide.pods.scene import Scene
from trimtab.decide.preempt import SYSTEM_CRITICAL

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
    """Arguments of the DefaultEvictor, as a DeschedulerPolicy writes them, and the limits of the policy."""

    node_fit: bool = False
    min_replicas: int = 0
    min_pod_age: float | None = None
    """Seconds."""
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
    max_pods_to_evict_per_node: int | None = None
    max_pods_to_evict_per_namespace: int | None = None
    max_pods_to_evict_total: int | None = None

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


class Round:
    """One run of movers over one scene: what they took, and what is left of the limits."""

    def __init__(self, scene: Scene, args: EvictorArgs | None = None, profile: Profile = UPSTREAM) -> None:
        self.scene = scene
        self.args = args or EvictorArgs()
        self.profile = profile
        self.evictions: list[Eviction] = []
        self.strategy = ""
        self._per_node: dict[str, int] = {}
        self._per_namespace: dict[str, int] = {}
        self._room = Foresight(scene) if profile.descheduler_looks_ahead else Room(scene)

    @cached_property
    def _protected(self) -> Callable[[Resident], bool]:
        return protection(self.args, self.scene, self.profile)

    def evictable(self, pod: Resident) -> bool:
        """May this pod be moved at all."""
        if pod.traits.invited:
            return True
        return not (pod.traits.immovable or pod.terminating or self._protected(pod))

    def ready_to_go(self, pod: Resident) -> bool:
        """The last question before it is moved: has it somewhere to go, and is its namespace meant."""
        if (self.args.node_fit or self.profile.descheduler_looks_ahead) and not self.has_room_elsewhere(pod):
            return False
        wanted = self.args.namespace_label_selector
        return wanted is None or wanted.matches(self.scene.fleet.namespaces.get(pod.namespace, {}))

    def has_room_elsewhere(self, pod: Resident) -> bool:
        return self._room.fits(pod, other_than=pod.pod.spec.node_name)

    def fits_anywhere(self, pod: Resident) -> bool:
        """Whether any node, its own included, could take the pod."""
        return self._room.suits_own(pod) or self.has_room_elsewhere(pod)

    def fits_among(self, pod: Resident, nodes: Iterable[str]) -> bool:
        """Whether one of these nodes, other than its own, could take the pod."""
        return self._room.fits(pod, other_than=pod.pod.spec.node_name, among=nodes)

    def evict(self, pod: Resident, reason: str) -> Answer:
        """Take the pod, unless a limit is reached."""
        node, args = pod.pod.spec.node_name, self.args
        if args.max_pods_to_evict_total is not None and len(self.evictions) >= args.max_pods_to_evict_total:
            return Answer.TOTAL_LIMIT
        if _reached(args.max_pods_to_evict_per_node, self._per_node.get(node, 0)):
            return Answer.NODE_LIMIT
        if _reached(args.max_pods_to_evict_per_namespace, self._per_namespace.get(pod.namespace, 0)):
            return Answer.NAMESPACE_LIMIT
        self._per_node[node] = self._per_node.get(node, 0) + 1
        self._per_namespace[pod.namespace] = self._per_namespace.get(pod.namespace, 0) + 1
        self.evictions.append(Eviction(pod, node, self.strategy, reason))
        self._room.moved(pod)
        return Answer.EVICTED


def _reached(limit: int | None, taken: int) -> bool:
    return limit is not None and taken >= limit


Rule = Callable[[Resident], bool]


def protection(args: EvictorArgs, scene: Scene, profile: Profile) -> Rule:
    """Whether anything protects a pod that is otherwise like any other; only what is switched on is asked."""
    active = args.protections()
    rules: list[Rule] = []
    if args.no_eviction_policy == "Mandatory":
        rules.append(_reluctant)
    threshold = args.priority_threshold.value if args.priority_threshold is not None else None
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
    if args.min_pod_age is not None:
        rules.append(_too_young(timedelta(seconds=args.min_pod_age), scene))
    return _any_of(tuple(rules))


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
