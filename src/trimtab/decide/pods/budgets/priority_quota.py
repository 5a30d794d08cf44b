"""Resource quotas per priority class: which quotas apply to a pod, what remains, and what they guarantee in total."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.quota import ResourceQuota, ScopedResourceSelectorRequirement
from trimtab.api.quantity import from_milli
from trimtab.decide.pods.fit.requests import Amounts, parse_amounts, pod_resources_of
from trimtab.decide.pods.pod_traits import BEST_EFFORT, qos_class

PRIORITY_CLASS_SCOPE = "PriorityClass"


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
    matches = {
        "BestEffort": qos_class(pod) == BEST_EFFORT,
        "NotBestEffort": qos_class(pod) != BEST_EFFORT,
        "Terminating": has_deadline,
        "NotTerminating": not has_deadline,
        PRIORITY_CLASS_SCOPE: bool(pod.spec.priority_class_name),
    }
    return matches.get(scope, False)


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
    side, _, resource = name.rpartition(".")
    return limits.get(resource, 0) if side == "limits" else requests.get(resource, 0)


def _total_limits(pod: Pod) -> Amounts:
    total: Amounts = {}
    for container in pod.spec.containers:
        for name, amount in parse_amounts(container.resources.limits).items():
            total[name] = total.get(name, 0) + amount
    return total


def hard_limits_of(quota: ResourceQuota) -> Amounts:
    """Return the limits on pods, cpu and memory, in the units of `Amounts`."""
    found = {}
    for name, text in quota.spec.hard.items():
        resource = name.rpartition(".")[2]
        if name in ("pods", "count/pods") or resource in ("cpu", "memory"):
            found[name] = parse_amounts({resource: text})[resource]
    return found


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
    return from_milli(amount) if name.rpartition(".")[2] == "cpu" else str(amount)


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
