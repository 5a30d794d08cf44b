"""The order of priorities: names in it must not contradict the values of their classes."""

from collections.abc import Sequence
from itertools import pairwise

import orjson

from trimtab.api.value import Raw
from trimtab.errors import Cause
from trimtab.server import refuse
from trimtab.server.admission import Attributes
from trimtab.store.log import Store

_CLASSES, _ORDER = "/registry/scheduling.k8s.io/priorityclasses/", "/registry/trimtab.dev/priorityorders/default"


class Priorities:
    """An admission plugin for PriorityOrders, and for classes that an order names already."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        where = attributes.where
        kind = where.served.kind.id
        if obj is None or where.subresource or attributes.operation not in ("CREATE", "UPDATE"):
            return
        if kind == "priorityorders.trimtab.dev":
            self._check(attributes, (obj.get("spec") or {}).get("names") or (), self._values())
        elif kind == "priorityclasses.scheduling.k8s.io" and (order := self._store.get(_ORDER)) is not None:
            names = (orjson.loads(order.value).get("spec") or {}).get("names") or ()
            self._check(attributes, names, {**self._values(), obj["metadata"]["name"]: obj.get("value", 0)})

    def _values(self) -> dict[str, int]:
        stored = [orjson.loads(entry.value) for entry in self._store.list(_CLASSES).entries]
        return {one["metadata"]["name"]: one.get("value", 0) for one in stored}

    def _check(self, attributes: Attributes, names: Sequence[str], values: dict[str, int]) -> None:
        known = [name for name in names if name in values]
        causes = [
            Cause(
                "FieldValueInvalid",
                f"Invalid value: {refuse.quoted(higher)}: stands above {lower}, but its value {values[higher]} is "
                f"lower than {values[lower]}",
                "spec.names",
            )
            for higher, lower in pairwise(known)
            if values[higher] < values[lower]
        ]
        if causes:
            served = attributes.where.served
            raise refuse.invalid(served.kind.name, served.group, attributes.where.name, causes)
