"""Resource quotas per priority: limits per namespace, and priorities that need a quota."""

from collections.abc import Sequence

import msgspec

from trimtab.api.kind import Kind
from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.quota import ResourceQuota
from trimtab.api.value import Raw
from trimtab.decide.pods.budgets.priority_quota import missing_amounts, quota_applies_to, quota_excess
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.storage.staged_objects import StagedObjects
from trimtab.store.keys import namespace_below, object_key, resource_prefix
from trimtab.store.store import Store
from trimtab.store.txn import Operation, Proposal, StagedState

_QUOTAS, _PODS = resource_prefix("", "resourcequotas"), resource_prefix("", "pods")
_POLICY = object_key("trimtab.dev", "disruptionpolicies", "default")


class PriorityQuotaCheck:
    """An admission plugin that counts stored pods, so that it does not depend on the quota status.

    It counts in the transaction that writes the pod, so only one of two concurrent pods gets the last place.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id == "pods"

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        if attributes.dry_run and obj is not None and (check := self.transaction_check(attributes, obj)) is not None:
            await self._store.transact(check)

    def transaction_check(self, attributes: Attributes, obj: Raw) -> Proposal | None:
        where = attributes.where
        if attributes.operation != "CREATE" or where.served.kind.id != "pods" or where.subresource:
            return None
        pod = msgspec.convert(obj, Pod, strict=False)

        def check(state: StagedState) -> Sequence[Operation]:
            _check_quotas(StagedObjects(state), pod, where.name)
            return ()

        return check


def _check_quotas(staged: StagedObjects, pod: Pod, name: str) -> None:
    quotas = [
        quota
        for _, quota in staged.list_typed(ResourceQuota, namespace_below(_QUOTAS, pod.namespace))
        if quota_applies_to(quota, pod)
    ]
    policy = staged.get_typed(DisruptionPolicy, _POLICY)
    limited = policy.spec.limited_priorities if policy is not None else ()
    if pod.spec.priority_class_name in limited and not any(quota.spec.scope_selector for quota in quotas):
        why = f"insufficient quota to match these scopes: [{{PriorityClass In [{pod.spec.priority_class_name}]}}]"
        raise api_errors.forbidden("pods", "", name, why)
    pods = [other for _, other in staged.list_typed(Pod, namespace_below(_PODS, pod.namespace))] if quotas else []
    for quota in quotas:
        if missing := missing_amounts(quota, pod):
            raise api_errors.forbidden("pods", "", name, f"failed quota: {quota.name}: must specify {missing}")
        if (found := quota_excess(quota, pod, pods)) is not None:
            raise api_errors.forbidden("pods", "", name, found.message)
