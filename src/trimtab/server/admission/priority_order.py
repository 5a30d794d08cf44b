"""A PriorityOrder must not contradict the values of its PriorityClasses."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import orjson

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.errors import Cause
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.store.keys import object_key, resource_prefix
from trimtab.store.store import Store

_CLASSES = resource_prefix("scheduling.k8s.io", "priorityclasses")
_ORDER = object_key("trimtab.dev", "priorityorders", "default")
_PRIORITY_CLASSES, _ORDERS = "priorityclasses.scheduling.k8s.io", "priorityorders.trimtab.dev"


class PriorityOrderCheck:
    """An admission plugin for PriorityOrders and for the classes they name."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id in (_ORDERS, _PRIORITY_CLASSES)

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        where = attributes.where
        kind = where.served.kind.id
        if obj is None or where.subresource or attributes.operation not in ("CREATE", "UPDATE"):
            return
        if kind == _ORDERS:
            names = (obj.get("spec") or {}).get("names") or ()
            self._raise_invalid(
                attributes, [order_cause(*pair) for pair in contradictions(names, self._class_values())]
            )
        elif kind == _PRIORITY_CLASSES and (order := self._store.get(_ORDER)) is not None:
            names, own = (orjson.loads(order.value).get("spec") or {}).get("names") or (), obj["metadata"]["name"]
            found = contradictions(names, {**self._class_values(), own: obj.get("value", 0)})
            self._raise_invalid(
                attributes, [value_cause(own, *pair) for pair in found if own in (pair[0].name, pair[1].name)]
            )

    def _class_values(self) -> dict[str, int]:
        classes = [orjson.loads(entry.value) for entry in self._store.list(_CLASSES).entries]
        return {obj["metadata"]["name"]: obj.get("value", 0) for obj in classes}

    def _raise_invalid(self, attributes: Attributes, causes: Sequence[Cause]) -> None:
        if causes:
            served = attributes.where.served
            raise api_errors.invalid(served.kind.name, served.group, attributes.where.name, causes)


class RankedClass(NamedTuple):
    name: str
    value: int


def contradictions(names: Sequence[str], values: Mapping[str, int]) -> list[tuple[RankedClass, RankedClass]]:
    """Neighbours of which the higher one has the lower value."""
    known = [RankedClass(name, values[name]) for name in names if name in values]
    return [(higher, lower) for higher, lower in pairwise(known) if higher.value < lower.value]


def order_cause(higher: RankedClass, lower: RankedClass) -> Cause:
    message = f"is above {lower.name} in the order, but its value {higher.value} is lower than {lower.value}"
    return Cause("FieldValueInvalid", f"Invalid value: {api_errors.quote_value(higher.name)}: {message}", "spec.names")


def value_cause(own: str, higher: RankedClass, lower: RankedClass) -> Cause:
    """The order was there first: the class must fit into it, or the order must change."""
    value, bound = (
        (higher.value, f"at least {lower.value}") if own == higher.name else (lower.value, f"at most {higher.value}")
    )
    message = f"the PriorityOrder default has {higher.name} above {lower.name}; use a value of {bound}, or change the order first"
    return Cause("FieldValueInvalid", f"Invalid value: {value}: {message}", "value")
