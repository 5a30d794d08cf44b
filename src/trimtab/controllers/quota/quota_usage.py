"""What bindings use of a FederatedResourceQuota, and whether a change of a binding is within it."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

import msgspec

from trimtab.api.kinds.quota import FederatedResourceQuota
from trimtab.api.kinds.work import Binding, ResourceBinding
from trimtab.api.quantity import format_like, parse_quantity
from trimtab.api.value import QuantityText
from trimtab.controllers.contract import View
from trimtab.controllers.settings import setting
from trimtab.decide.karmada import BindingDecision
from trimtab.decide.pipeline import QUOTA_EXCEEDED, Failure

Use = dict[str, Fraction]


def is_enforced(view: View) -> bool:
    return bool(setting(view, "quota-enforcement"))


def use_of(binding: Binding, replicas: int | None = None, clusters: int | None = None) -> Use:
    """What a binding uses: the requests of its replicas, or of its components once per cluster.

    `replicas` and `clusters` replace those of its present placement.
    """
    spec = binding.spec
    used: Use = {}
    if spec.components:
        count = len(spec.clusters) if clusters is None else clusters
        for component in spec.components:
            if component.replica_requirements is not None:
                add_requests(used, component.replica_requirements.resource_request, component.replicas * count)
    elif spec.replica_requirements is not None:
        count = sum(target.replicas for target in spec.clusters) if replicas is None else replicas
        add_requests(used, spec.replica_requirements.resource_request, count)
    return used


def add_requests(used: Use, requests: Mapping[str, QuantityText], times: int) -> None:
    for resource, amount in requests.items():
        total = parse_quantity(amount) * times
        if total:
            used[resource] = used.get(resource, Fraction(0)) + total


def sum_of(uses: Iterable[Use]) -> Use:
    total: Use = {}
    for use in uses:
        for resource, amount in use.items():
            total[resource] = total.get(resource, Fraction(0)) + amount
    return total


def used_of_quota(quota: FederatedResourceQuota, view: View) -> dict[str, QuantityText]:
    """What the bindings of the namespace use of the resources that the quota limits."""
    total = sum_of(use_of(binding) for binding in view.all(ResourceBinding, quota.namespace))
    return {
        resource: format_like(total[resource], limit)
        for resource, limit in sorted(quota.spec.overall.items())
        if total.get(resource)
    }


class QuotaLedger:
    """What is used in each namespace, with the changes that one reconcile has granted so far."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._quotas: dict[str, list[FederatedResourceQuota]] = {}
        for quota in view.all(FederatedResourceQuota) if is_enforced(view) else ():
            if quota.spec.overall and quota.metadata.deletion_timestamp is None:
                self._quotas.setdefault(quota.namespace, []).append(quota)
        self._used: dict[str, Use] = {}

    def charge(self, namespace: str, before: Use, after: Use) -> str:
        """Grant a change of a binding; returns why it is refused, and grants nothing then.

        Only what grows is refused: a workload that uses more than a quota which somebody reduced may still shrink or stay.
        """
        quotas = self._quotas.get(namespace)
        if not quotas or before == after:
            return ""
        if namespace not in self._used:
            self._used[namespace] = sum_of(use_of(one) for one in self._view.all(ResourceBinding, namespace))
        used = self._used[namespace]
        delta = difference(before, after)
        if why := refusal(quotas, used, delta):
            # In the other profile a webhook refuses the write.
            return with_webhook(why) if self._view.profile.name == "upstream" else why
        for resource, amount in delta.items():
            used[resource] = used.get(resource, Fraction(0)) + amount
        return ""

    def check(self, binding: Binding, decision: BindingDecision) -> BindingDecision:
        """The decision, or its refusal when the namespace has no quota left for it."""
        if not decision.ok or binding.namespace not in self._quotas:
            return decision
        clusters = decision.clusters
        after = use_of(binding, replicas=sum(n for _, n in clusters), clusters=len(clusters))
        why = self.charge(binding.namespace, use_of(binding), after)
        if not why:
            return decision
        return msgspec.structs.replace(decision, shares=None, failure=Failure(QUOTA_EXCEEDED, lambda: why))


def difference(before: Use, after: Use) -> Use:
    return {name: after.get(name, Fraction(0)) - before.get(name, Fraction(0)) for name in {*before, *after}}


def refusal(quotas: Iterable[FederatedResourceQuota], used: Use, delta: Use) -> str:
    """Why the quotas do not allow to use that much more; empty if they do."""
    for quota in quotas:
        for resource, limit in sorted(quota.spec.overall.items()):
            total = used.get(resource, Fraction(0)) + delta.get(resource, Fraction(0))
            if delta.get(resource, 0) > 0 and total > parse_quantity(limit):
                return (
                    f"FederatedResourceQuota({quota.namespace}/{quota.name}) exceeded for resource {resource}: "
                    f"requested sum {format_like(total, limit)}, limit {limit}."
                )
    return ""


def with_webhook(why: str) -> str:
    return f'admission webhook "resourcebinding.karmada.io" denied the request: {why}'
