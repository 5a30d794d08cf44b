"""ResourceQuotas for objects other than pods; pods are counted by `PriorityQuotaCheck`."""

from collections.abc import Iterator, Sequence

import orjson

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.decide.pods.budgets.object_quota import CLAIMS, SERVICES, object_limits, target_of, use_of
from trimtab.decide.pods.budgets.priority_quota import QuotaExcess, format_amount
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.resources import ObjectPath
from trimtab.store.keys import resource_prefix
from trimtab.store.store import Store
from trimtab.store.txn import Operation, Proposal, StagedState

_QUOTAS = resource_prefix("", "resourcequotas")
_CHECKED_ON_UPDATE = (SERVICES, CLAIMS)
"""Kinds whose objects may use more after an update."""


class ObjectQuotaCheck:
    """An admission plugin that counts stored objects in the transaction that writes another."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.namespaced and kind.id != "pods" and "list" in (kind.verbs or ("list",))

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        """Only creation is checked in its own transaction; two updates at once may exceed a quota."""
        is_unchecked = attributes.dry_run or attributes.operation == "UPDATE"
        if is_unchecked and obj is not None and (check := self.transaction_check(attributes, obj)) is not None:
            await self._store.transact(check)

    def transaction_check(self, attributes: Attributes, obj: Raw) -> Proposal | None:
        where = attributes.where
        creates = attributes.operation == "CREATE"
        changes = attributes.operation == "UPDATE" and where.served.kind.id in _CHECKED_ON_UPDATE
        if where.subresource or not (creates or changes) or not self.handles(where.served.kind, attributes.operation):
            return None
        if not self._store.count(f"{_QUOTAS}{where.namespace}/"):
            return None

        def check(state: StagedState) -> Sequence[Operation]:
            for quota in _quotas(state, where.namespace):
                _check_quota(state, quota, where, obj)
            return ()

        return check


def _quotas(state: StagedState, namespace: str) -> Iterator[Raw]:
    for entry in state.list(f"{_QUOTAS}{namespace}/"):
        yield orjson.loads(entry.value)


def _check_quota(state: StagedState, quota: Raw, where: ObjectPath, obj: Raw) -> None:
    served = where.served
    hard = {
        name: limit
        for name, limit in object_limits(quota).items()
        if (target := target_of(name)) is not None and target.id == served.storage
    }
    if not hard:
        return
    key = served.key(where.namespace, obj["metadata"]["name"])
    others = [entry for entry in state.list(served.collection_prefix(where.namespace)) if entry.key != key]
    stored = state.get(key)
    before = orjson.loads(stored.value) if stored is not None else None
    objects = [orjson.loads(entry.value) for entry in others] if _reads_objects(hard) else [{}] * len(others)
    used = {name: sum(use_of(name, one) for one in objects) for name in hard}
    for name in hard:
        used[name] += use_of(name, before) if before is not None else 0
    requested = {name: use_of(name, obj) - (use_of(name, before) if before is not None else 0) for name in hard}
    over = [name for name in sorted(hard) if requested[name] > 0 and used[name] + requested[name] > hard[name]]
    if over:
        texts = [
            ",".join(f"{name}={format_amount(name, values[name])}" for name in over)
            for values in (requested, used, hard)
        ]
        message = QuotaExcess(quota["metadata"]["name"], *texts).message
        raise api_errors.forbidden(served.resource, served.group, obj["metadata"]["name"], message)


def _reads_objects(limits: dict[str, int]) -> bool:
    """Whether the limits need more than the number of objects."""
    return any(name.startswith("services.") or "storage" in name for name in limits)
