"""Protection of pods from eviction, by the arguments of the DefaultEvictor."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta

import msgspec

from trimtab.api.profile import Profile
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Value
from trimtab.decide.pods.descheduling.cluster_view import ClusterView
from trimtab.decide.pods.node_info import PodInfo
from trimtab.decide.pods.preemption.preempt import SYSTEM_CRITICAL
from trimtab.errors import InputError

DEFAULT_PROTECTIONS = frozenset(("SystemCriticalPods", "FailedBarePods", "PodsWithLocalStorage", "DaemonSetPods"))
EXTRA_PROTECTIONS = frozenset(("PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims"))
EVICTION_POLICIES = ("", "Preferred", "Mandatory")


class PriorityThreshold(Value):
    value: int | None = None
    name: str = ""


class ProtectedClass(Value):
    name: str = ""


class ClaimProtection(Value):
    protected_storage_classes: tuple[ProtectedClass, ...] = ()


class ProtectionConfig(Value):
    pods_with_pvc: ClaimProtection | None = msgspec.field(default=None, name="PodsWithPVC")


class PodProtections(Value):
    extra_enabled: tuple[str, ...] = ()
    default_disabled: tuple[str, ...] = ()
    config: ProtectionConfig | None = None


class EvictorArgs(Value):
    """Arguments of the DefaultEvictor, as in a DeschedulerPolicy."""

    node_fit: bool = False
    min_replicas: int = 0
    min_pod_age: str = ""
    """A duration, as in `1h30m`."""
    ignore_pvc_pods: bool = False
    ignore_pods_without_pdb: bool = msgspec.field(default=False, name="ignorePodsWithoutPDB")
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
    """The nodes that count as destinations; all when empty."""

    def validation_error(self) -> str:
        """Return what is wrong with these arguments; empty when they are valid."""
        chosen, threshold = self.pod_protections, self.priority_threshold
        if threshold is not None and threshold.value is not None and threshold.name:
            return "priorityThreshold takes a value or a name, not both"
        if self.no_eviction_policy not in EVICTION_POLICIES:
            return f"noEvictionPolicy {self.no_eviction_policy!r} is neither Preferred nor Mandatory"
        if (chosen.extra_enabled or chosen.default_disabled) and self._deprecated_switches:
            return f"podProtections cannot be mixed with {self._deprecated_switches[0]}"
        if unknown := set(chosen.extra_enabled) - EXTRA_PROTECTIONS:
            return f"podProtections.extraEnabled: there is no {min(unknown)}; there are {', '.join(sorted(EXTRA_PROTECTIONS))}"
        if unknown := set(chosen.default_disabled) - DEFAULT_PROTECTIONS:
            return f"podProtections.defaultDisabled: {min(unknown)} is not on by default"
        classes = chosen.config.pods_with_pvc if chosen.config is not None else None
        if classes is not None and "PodsWithPVC" not in chosen.extra_enabled:
            return "podProtections.config.PodsWithPVC needs PodsWithPVC in extraEnabled"
        return ""

    @property
    def _deprecated_switches(self) -> list[str]:
        switches = {
            "evictLocalStoragePods": self.evict_local_storage_pods,
            "evictDaemonSetPods": self.evict_daemon_set_pods,
            "evictSystemCriticalPods": self.evict_system_critical_pods,
            "evictFailedBarePods": self.evict_failed_bare_pods,
            "ignorePvcPods": self.ignore_pvc_pods,
            "ignorePodsWithoutPDB": self.ignore_pods_without_pdb,
        }
        return [name for name, on in switches.items() if on]

    def protections(self) -> frozenset[str]:
        """Return the names of the active protections; the lists, once used, replace the deprecated switches."""
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


PodPredicate = Callable[[PodInfo], bool]


def protection_check(args: EvictorArgs, cluster_view: ClusterView, profile: Profile) -> PodPredicate:
    """Return a check whether an active protection applies to a pod; inactive ones cost nothing."""
    active = args.protections()
    rules: list[PodPredicate] = []
    if args.no_eviction_policy == "Mandatory":
        rules.append(_prefers_no_eviction)
    threshold = _priority_threshold(args.priority_threshold, cluster_view)
    if "SystemCriticalPods" in active:
        # upstream reads the threshold only while system-critical pods are protected
        rules.append(_has_min_priority(SYSTEM_CRITICAL if threshold is None else min(threshold, SYSTEM_CRITICAL)))
    elif threshold is not None and profile.descheduler_simulates_moves:
        rules.append(_has_min_priority(threshold))
    rules.append(_has_no_owner if "FailedBarePods" in active else _has_no_owner_and_not_failed)
    if "PodsWithLocalStorage" in active:
        rules.append(_has_local_storage)
    if "DaemonSetPods" in active:
        rules.append(_is_daemon)
    if "PodsWithPVC" in active:
        rules.append(_volume_claim_check(args, cluster_view))
    if "PodsWithoutPDB" in active:
        rules.append(lambda pod: not any(cover.protects(pod) for cover in cluster_view.budgets))
    if "PodsWithResourceClaims" in active:
        rules.append(_has_resource_claims)
    if args.label_selector is not None:
        selector = args.label_selector
        rules.append(lambda pod: not selector.matches(pod.labels))
    if args.min_replicas > 1:
        counted = (
            cluster_view.ready_pods_per_owner if profile.descheduler_simulates_moves else cluster_view.pods_per_owner
        )
        rules.append(_has_too_few_replicas(args.min_replicas, counted))
    if args.min_pod_age:
        rules.append(_is_too_young(parse_go_duration(args.min_pod_age), cluster_view))
    return _any_matches(tuple(rules))


def _priority_threshold(threshold: PriorityThreshold | None, cluster_view: ClusterView) -> int | None:
    if threshold is None or not threshold.name:
        return None if threshold is None else threshold.value
    if threshold.name not in cluster_view.priorities:
        raise InputError(f"priorityThreshold names the PriorityClass {threshold.name}, which does not exist")
    return cluster_view.priorities[threshold.name]


def _any_matches(rules: tuple[PodPredicate, ...]) -> PodPredicate:
    def is_protected(pod: PodInfo) -> bool:
        for rule in rules:  # noqa: SIM110  a plain loop is faster, and this runs for every pod of a cluster
            if rule(pod):
                return True
        return False

    return is_protected


def _prefers_no_eviction(pod: PodInfo) -> bool:
    return pod.traits.prefers_no_eviction


def _has_no_owner(pod: PodInfo) -> bool:
    return pod.traits.owner_count == 0


def _has_no_owner_and_not_failed(pod: PodInfo) -> bool:
    return pod.traits.owner_count == 0 and pod.pod.status.phase != "Failed"


def _has_local_storage(pod: PodInfo) -> bool:
    return pod.traits.has_local_storage


def _is_daemon(pod: PodInfo) -> bool:
    return pod.traits.is_daemon


def _has_min_priority(priority: int) -> PodPredicate:
    return lambda pod: pod.traits.order[0] and pod.priority >= priority


def _volume_claim_check(args: EvictorArgs, cluster_view: ClusterView) -> PodPredicate:
    config = args.pod_protections.config
    classes = config.pods_with_pvc.protected_storage_classes if config and config.pods_with_pvc else ()
    if not classes:
        return lambda pod: bool(pod.traits.volume_claims)
    names = {entry.name for entry in classes}
    known = cluster_view.storage_classes

    def is_protected(pod: PodInfo) -> bool:
        found = [known.get((pod.namespace, claim)) for claim in pod.traits.volume_claims]
        return any(name is None or name in names for name in found)  # a claim that cannot be resolved is protected

    return is_protected


def _has_resource_claims(pod: PodInfo) -> bool:
    return pod.traits.has_resource_claims


def _has_too_few_replicas(min_replicas: int, pods_per_owner: Mapping[str, int]) -> PodPredicate:
    def is_protected(pod: PodInfo) -> bool:
        return bool(pod.traits.owner_uid) and pods_per_owner.get(pod.traits.owner_uid, 0) < min_replicas

    return is_protected


def _is_too_young(age: timedelta, cluster_view: ClusterView) -> PodPredicate:
    def is_protected(pod: PodInfo) -> bool:
        started = pod.pod.status.start_time
        return started is None or cluster_view.now - started < age

    return is_protected


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def parse_go_duration(text: str) -> timedelta:
    """Parse a duration as Go writes it: `1h30m`, `90s`."""
    parts = re.findall(r"([0-9.]+)(h|ms|m|s)", text)
    if "".join(number + unit for number, unit in parts) != text:
        raise InputError(f"{text!r} is not a duration; write for example 1h30m")
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
