"""Quotas per priority: a namespace may use only so much, and some priorities only where a quota speaks of them."""

from collections.abc import Iterator, Sequence
from typing import cast

import msgspec

from trimtab.api.kind import kind_of
from trimtab.api.kinds.disruption import DisruptionPolicy
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.kinds.native.quota import ResourceQuota
from trimtab.api.value import Raw
from trimtab.decide.pods.allotment import covers, excess
from trimtab.server import refuse
from trimtab.server.admission import Attributes
from trimtab.store.entry import Entry
from trimtab.store.log import Store

_QUOTAS, _PODS = "/registry/core/resourcequotas/", "/registry/core/pods/"
_POLICY = "/registry/trimtab.dev/disruptionpolicies/default"


class Quotas:
    """An admission plugin that counts what is stored, so that it is right also when nobody keeps the status."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        return obj

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        where = attributes.where
        if attributes.operation != "CREATE" or where.served.kind.id != "pods" or where.subresource or obj is None:
            return
        pod = msgspec.convert(obj, Pod, strict=False)
        quotas = [quota for quota in self._quotas(where.namespace) if covers(quota, pod)]
        if pod.spec.priority_class_name in self._limited() and not any(quota.spec.scope_selector for quota in quotas):
            why = f"insufficient quota to match these scopes: [{{PriorityClass In [{pod.spec.priority_class_name}]}}]"
            raise refuse.forbidden("pods", "", where.name, why)
        there = (
            [cast("Pod", kind_of(Pod).decode(one.value)) for one in self._listed(_PODS, where.namespace)]
            if quotas
            else []
        )
        for quota in quotas:
            if (found := excess(quota, pod, there)) is not None:
                raise refuse.forbidden("pods", "", where.name, found.message)

    def _listed(self, prefix: str, namespace: str) -> Sequence[Entry]:
        return self._store.list(f"{prefix}{namespace}/").entries

    def _quotas(self, namespace: str) -> Iterator[ResourceQuota]:
        for entry in self._listed(_QUOTAS, namespace):
            yield cast("ResourceQuota", kind_of(ResourceQuota).decode(entry.value))

    def _limited(self) -> tuple[str, ...]:
        entry = self._store.get(_POLICY)
        policy = cast("DisruptionPolicy", kind_of(DisruptionPolicy).decode(entry.value)) if entry else None
        return policy.spec.limited_priorities if policy is not None else ()
