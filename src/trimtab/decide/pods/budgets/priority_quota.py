"""Resource quotas per priority class: which quotas apply to a pod, what remains, and what they guarantee in total."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.quota import ResourceQuota, ScopedResourceSelectorRequirement
from trimtab.api.quantity import from_milli
from trimtab.decide.pods.fit.requests import Amounts, amounts, demand
from trimtab.decide.pods.pod_traits import BEST_EFFORT, quality

PRIORITY = "PriorityClass"


class Excess(NamedTuple):
    """A quota that a pod would exceed, in the words of Kubernetes."""

    quota: str
    requested: str
    used: str
    limited: str

    @property
    def message(self) -> str:
        return f"exceeded quota: {self.quota}, requested: {self.requested}, used: {self.used}, limited: {self.limited}"


def covers(quota: ResourceQuota, pod: Pod) -> bool:
    """Return whether the pod counts against the quota: every scope must match."""
    rules = quota.spec.scope_selector.match_expressions if quota.spec.scope_selector is not None else ()
    return all(_scope(scope, pod) for scope in quota.spec.scopes) and all(_matches(rule, pod) for rule in rules)


def _matches(rule: ScopedResourceSelectorRequirement, pod: Pod) -> bool:
    if rule.scope_name != PRIORITY:
        return _scope(rule.scope_name, pod)
    name = pod.spec.priority_class_name
    if rule.operator == "Exists":
        return bool(name)
    if rule.operator == "DoesNotExist":
        return not name
    return (name in rule.values) == (rule.operator == "In")


def _scope(scope: str, pod: Pod) -> bool:
    has_deadline = pod.spec.active_deadline_seconds is not None
    matches = {
        "BestEffort": quality(pod) == BEST_EFFORT,
        "NotBestEffort": quality(pod) != BEST_EFFORT,
        "Terminating": has_deadline,
        "NotTerminating": not has_deadline,
        PRIORITY: bool(pod.spec.priority_class_name),
    }
    return matches.get(scope, False)


def used_by(pods: Iterable[Pod], names: Iterable[str]) -> Amounts:
    """Return the usage of these pods for the resources of a quota; finished pods use nothing."""
    total: Amounts = dict.fromkeys(names, 0)
    for pod in pods:
        if pod.is_terminal:
            continue
        requests, limits = demand(pod).requests, _limits(pod)
        for name in total:
            total[name] += _of(name, requests, limits)
    return total


def _of(name: str, requests: Mapping[str, int], limits: Mapping[str, int]) -> int:
    if name in ("pods", "count/pods"):
        return 1
    side, _, resource = name.rpartition(".")
    return limits.get(resource, 0) if side == "limits" else requests.get(resource, 0)


def _limits(pod: Pod) -> Amounts:
    total: Amounts = {}
    for container in pod.spec.containers:
        for name, amount in amounts(container.resources.limits).items():
            total[name] = total.get(name, 0) + amount
    return total


def hard_of(quota: ResourceQuota) -> Amounts:
    """Return the limits on pods, cpu and memory, in the units of `Amounts`."""
    found = {}
    for name, text in quota.spec.hard.items():
        resource = name.rpartition(".")[2]
        if name in ("pods", "count/pods") or resource in ("cpu", "memory"):
            found[name] = amounts({resource: text})[resource]
    return found


def excess(quota: ResourceQuota, pod: Pod, there: Sequence[Pod]) -> Excess | None:
    """Return whether the pod would exceed the quota beside the existing pods."""
    hard = hard_of(quota)
    used, requested = used_by([one for one in there if covers(quota, one)], hard), used_by([pod], hard)
    over = [name for name in sorted(hard) if requested[name] and used[name] + requested[name] > hard[name]]
    if not over:
        return None
    return Excess(quota.name, _listed(requested, over), _listed(used, over), _listed(hard, over))


def _listed(values: Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{name}={shown(name, values[name])}" for name in names)


def shown(name: str, amount: int) -> str:
    return from_milli(amount) if name.rpartition(".")[2] == "cpu" else str(amount)


def promised(quotas: Iterable[ResourceQuota], priority: str) -> Amounts:
    """Return what quotas guarantee to pods of this priority, in all namespaces together."""
    total: Amounts = {}
    for quota in quotas:
        rules = quota.spec.scope_selector.match_expressions if quota.spec.scope_selector is not None else ()
        if not any(rule.scope_name == PRIORITY and rule.operator == "In" and priority in rule.values for rule in rules):
            continue
        for name, amount in hard_of(quota).items():
            resource = name.removeprefix("requests.")
            if resource in ("cpu", "memory"):
                total[resource] = total.get(resource, 0) + amount
    return total
