"""Resource quotas per priority class: which quotas apply to a pod, what remains, and what they guarantee in total."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Container, Pod, PodAffinityTerm
from trimtab.api.kinds.native.quota import ResourceQuota, ScopedResourceSelectorRequirement
from trimtab.api.quantity import from_int, from_milli
from trimtab.decide.pods.fit.requests import Amounts, parse_amounts, pod_resources_of
from trimtab.decide.pods.pod_traits import BEST_EFFORT, qos_class

PRIORITY_CLASS_SCOPE = "PriorityClass"
_COMPUTE = frozenset(("cpu", "memory", "ephemeral-storage"))
_REQUIRED = frozenset(f"{side}{name}" for side in ("", "requests.", "limits.") for name in ("cpu", "memory"))
"""Limits on amounts that every container must then specify."""


class QuotaExcess(NamedTuple):
    """A quota that a pod would exceed, in the words of Kubernetes."""

    quota: str
    requested: str
    used: str
    limited: str

    @property
    def message(self) -> str:
        return f"exceeded quota: {self.quota}, requested: {self.requested}, used: {self.used}, limited: {self.limited}"


def quota_applies_to(quota: ResourceQuota, pod: Pod) -> bool:
    """Return whether the pod counts against the quota: every scope must match."""
    rules = quota.spec.scope_selector.match_expressions if quota.spec.scope_selector is not None else ()
    return all(_scope_matches(scope, pod) for scope in quota.spec.scopes) and all(
        _requirement_matches(rule, pod) for rule in rules
    )


def _requirement_matches(rule: ScopedResourceSelectorRequirement, pod: Pod) -> bool:
    if rule.scope_name != PRIORITY_CLASS_SCOPE:
        return _scope_matches(rule.scope_name, pod)
    name = pod.spec.priority_class_name
    if rule.operator == "Exists":
        return bool(name)
    if rule.operator == "DoesNotExist":
        return not name
    return (name in rule.values) == (rule.operator == "In")


def _scope_matches(scope: str, pod: Pod) -> bool:
    has_deadline = pod.spec.active_deadline_seconds is not None
    if scope == "CrossNamespacePodAffinity":
        return any(term.namespaces or term.namespace_selector is not None for term in _affinity_terms(pod))
    matches = {
        "BestEffort": qos_class(pod) == BEST_EFFORT,
        "NotBestEffort": qos_class(pod) != BEST_EFFORT,
        "Terminating": has_deadline,
        "NotTerminating": not has_deadline,
        PRIORITY_CLASS_SCOPE: bool(pod.spec.priority_class_name),
    }
    return matches.get(scope, False)


def _affinity_terms(pod: Pod) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity
    for rules in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ():
        if rules is not None:
            yield from rules.required_during_scheduling_ignored_during_execution
            yield from (one.pod_affinity_term for one in rules.preferred_during_scheduling_ignored_during_execution)


def usage_of(pods: Iterable[Pod], names: Iterable[str]) -> Amounts:
    """Return the usage of these pods for the resources of a quota; finished pods use nothing."""
    total: Amounts = dict.fromkeys(names, 0)
    for pod in pods:
        if pod.is_terminal:
            continue
        requests, limits = pod_resources_of(pod).requests, _total_limits(pod)
        for name in total:
            total[name] += _amount_of(name, requests, limits)
    return total


def _amount_of(name: str, requests: Mapping[str, int], limits: Mapping[str, int]) -> int:
    if name in ("pods", "count/pods"):
        return 1
    return (limits if name.startswith("limits.") else requests).get(_resource_of(name), 0)


def _resource_of(name: str) -> str:
    """The resource that a limit is about: `requests.cpu` and `cpu` are the same."""
    return name.removeprefix("requests.").removeprefix("limits.")


def _limits_pods(name: str) -> bool:
    """Whether pods use this limit, and not other objects."""
    resource = _resource_of(name)
    if name in ("pods", "count/pods") or resource in _COMPUTE or resource.startswith("hugepages-"):
        return True
    return name.startswith("requests.") and "/" in resource and ".storageclass." not in name


def _total_limits(pod: Pod) -> Amounts:
    total: Amounts = {}
    for container in pod.spec.containers:
        for name, amount in parse_amounts(container.resources.limits).items():
            total[name] = total.get(name, 0) + amount
    return total


def hard_limits_of(quota: ResourceQuota) -> Amounts:
    """Return the limits that pods use, in the units of `Amounts`."""
    return {
        name: parse_amounts({_resource_of(name): text})[_resource_of(name)]
        for name, text in quota.spec.hard.items()
        if _limits_pods(name)
    }


def missing_amounts(quota: ResourceQuota, pod: Pod) -> str:
    """What containers of the pod must specify because the quota limits it; empty if nothing is missing."""
    missing = []
    for name in sorted(set(quota.spec.hard) & _REQUIRED):
        containers = [one.name for one in (*pod.spec.containers, *pod.spec.init_containers) if not _has(one, name)]
        if containers:
            missing.append(f"{name} for: {','.join(sorted(containers))}")
    return "; ".join(missing)


def _has(container: Container, name: str) -> bool:
    resources = container.resources
    return _resource_of(name) in (resources.limits if name.startswith("limits.") else resources.requests)


def quota_excess(quota: ResourceQuota, pod: Pod, existing: Sequence[Pod]) -> QuotaExcess | None:
    """Return whether the pod would exceed the quota beside the existing pods."""
    hard = hard_limits_of(quota)
    used, requested = usage_of([one for one in existing if quota_applies_to(quota, one)], hard), usage_of([pod], hard)
    over = [name for name in sorted(hard) if requested[name] and used[name] + requested[name] > hard[name]]
    if not over:
        return None
    return QuotaExcess(
        quota.name, _format_amounts(requested, over), _format_amounts(used, over), _format_amounts(hard, over)
    )


def _format_amounts(values: Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{name}={format_amount(name, values[name])}" for name in names)


def format_amount(name: str, amount: int) -> str:
    """A quantity as Kubernetes writes it: bytes in the largest binary unit that divides them."""
    if name.rpartition(".")[2] == "cpu":
        return from_milli(amount)
    return from_int(amount, binary=amount % 1024 == 0)


def guaranteed_amounts(quotas: Iterable[ResourceQuota], priority: str) -> Amounts:
    """Return what quotas guarantee to pods of this priority, in all namespaces together."""
    total: Amounts = {}
    for quota in quotas:
        rules = quota.spec.scope_selector.match_expressions if quota.spec.scope_selector is not None else ()
        if not any(
            rule.scope_name == PRIORITY_CLASS_SCOPE and rule.operator == "In" and priority in rule.values
            for rule in rules
        ):
            continue
        for name, amount in hard_limits_of(quota).items():
            resource = name.removeprefix("requests.")
            if resource in ("cpu", "memory"):
                total[resource] = total.get(resource, 0) + amount
    return total
