"""Reports in ResourceQuotas what objects other than pods use; the quota controller reports what pods use."""

import asyncio
from collections.abc import Iterator, Sequence

import orjson

from trimtab.api.value import Raw
from trimtab.decide.pods.budgets.object_quota import QuotaTarget, object_limits, target_of, use_of
from trimtab.errors import ApiError
from trimtab.server.auth.user import Caller
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.options import WriteOptions
from trimtab.server.resources import ObjectPath, ServedResource
from trimtab.store.keys import ROOT, resource_prefix
from trimtab.store.records import StoreEvent

_QUOTAS = resource_prefix("", "resourcequotas")
_CALLER = Caller(user_agent="kube-controller-manager")
_RETRY_SECONDS = 1.0


class ObjectQuotaStatus:
    """Counts again in a namespace with quotas when an object appears in it, changes or goes."""

    def __init__(self, resource_store: ResourceStore) -> None:
        self._resource_store = resource_store
        self._store = resource_store.store

    async def run(self) -> None:
        watch = self._store.watch(ROOT)
        for namespace in {_namespace_of(entry.key) for entry in self._store.list(_QUOTAS).entries}:
            await self._report(namespace)
        async for events in watch:
            for namespace in self._namespaces_with_quota(events):
                await self._report(namespace)

    def _namespaces_with_quota(self, events: Sequence[StoreEvent]) -> Iterator[str]:
        if not self._store.count(_QUOTAS):
            return
        for namespace in {_namespace_of(event.key) for event in events}:
            if namespace and self._store.count(f"{_QUOTAS}{namespace}/"):
                yield namespace

    async def _report(self, namespace: str) -> None:
        served = self._resource_store.catalogue.find("", "v1", "resourcequotas")
        if served is None:
            return
        for entry in self._store.list(f"{_QUOTAS}{namespace}/").entries:
            quota = orjson.loads(entry.value)
            used = {name: str(self._use_of(namespace, name)) for name in object_limits(quota)}
            known = (quota.get("status") or {}).get("used") or {}
            if any(known.get(name) != amount for name, amount in used.items()):
                await self._write(served, quota, used)

    def _use_of(self, namespace: str, limit: str) -> int:
        target = target_of(limit)
        if target is None:
            return 0
        prefix = _collection(target, namespace)
        if limit.startswith("count/") or limit == target.resource:
            return self._store.count(prefix)
        return sum(use_of(limit, orjson.loads(entry.value)) for entry in self._store.list(prefix).entries)

    async def _write(self, served: ServedResource, quota: Raw, used: dict[str, str]) -> None:
        def change(obj: Raw) -> DesiredObject:
            status = obj.get("status") or {}
            hard = obj["spec"].get("hard") or {}
            kept = {name: amount for name, amount in (status.get("used") or {}).items() if name in hard}
            return DesiredObject({**obj, "status": {**status, "hard": hard, "used": {**kept, **used}}})

        metadata = quota["metadata"]
        where = ObjectPath(served, metadata["namespace"], metadata["name"], "status")
        try:
            await self._resource_store.change(where, change, WriteOptions(field_manager=_CALLER.user_agent), _CALLER)
        except ApiError:  # it changed or is gone; its next event starts another attempt
            await asyncio.sleep(_RETRY_SECONDS)


def _collection(target: QuotaTarget, namespace: str) -> str:
    return f"{resource_prefix(target.group, target.resource)}{namespace}/"


def _namespace_of(key: str) -> str:
    parts = key.removeprefix(ROOT).split("/")
    return parts[2] if len(parts) == 4 else ""
