"""FederatedResourceQuotas: nobody writes a placement into a binding that uses more than the namespace may."""

from collections.abc import Sequence

import msgspec

from trimtab.api.kind import Kind, kind_of
from trimtab.api.kinds.quota import FederatedResourceQuota
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Raw
from trimtab.controllers.quota.quota_usage import difference, refusal, sum_of, use_of, with_webhook
from trimtab.errors import Forbidden
from trimtab.server.admission.chain import Attributes
from trimtab.server.storage.staged_objects import StagedObjects
from trimtab.store.keys import namespace_below, resource_prefix
from trimtab.store.store import Store
from trimtab.store.txn import Operation, Proposal, StagedState

_QUOTAS = resource_prefix("policy.karmada.io", "federatedresourcequotas")
_BINDINGS = resource_prefix("work.karmada.io", "resourcebindings")


class FederatedQuotaCheck:
    """An admission plugin for servers whose scheduler enforces quotas: it checks the bindings that others write."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id == kind_of(ResourceBinding).id and operation in ("CREATE", "UPDATE")

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        """Only creation is checked in its own transaction; two updates at once may exceed a quota."""
        is_unchecked = attributes.dry_run or attributes.operation == "UPDATE"
        if is_unchecked and obj is not None and (check := self.transaction_check(attributes, obj)) is not None:
            await self._store.transact(check)

    def transaction_check(self, attributes: Attributes, obj: Raw) -> Proposal | None:
        where = attributes.where
        if where.subresource or not self.handles(where.served.kind, attributes.operation):
            return None
        if obj["metadata"].get("deletionTimestamp") or not self._store.count(namespace_below(_QUOTAS, where.namespace)):
            return None
        binding = msgspec.convert(obj, ResourceBinding, strict=False)

        def check(state: StagedState) -> Sequence[Operation]:
            _check_quotas(StagedObjects(state), binding)
            return ()

        return check


def _check_quotas(staged: StagedObjects, binding: ResourceBinding) -> None:
    namespace = binding.namespace
    bindings = {one.name: one for _, one in staged.list_typed(ResourceBinding, namespace_below(_BINDINGS, namespace))}
    before = bindings.get(binding.name)
    delta = difference(use_of(before) if before is not None else {}, use_of(binding))
    if not any(amount > 0 for amount in delta.values()):
        return
    quotas = (
        quota
        for _, quota in staged.list_typed(FederatedResourceQuota, namespace_below(_QUOTAS, namespace))
        if quota.metadata.deletion_timestamp is None
    )
    if why := refusal(quotas, sum_of(map(use_of, bindings.values())), delta):
        raise Forbidden(with_webhook(why), details=False)
