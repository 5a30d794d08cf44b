"""LimitRanger: pods and claims get the defaults of the LimitRanges of their namespace and must stay within them."""

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

import orjson

from trimtab.api.kind import Kind
from trimtab.api.quantity import parse_quantity
from trimtab.api.value import Raw
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.store.keys import namespace_below, resource_prefix
from trimtab.store.store import Store

_RANGES = resource_prefix("", "limitranges")
_PARTS = ("containers", "initContainers")
Amounts = dict[str, Fraction]


class LimitRanger:
    """A plugin for pods and claims; it lists LimitRanges only for those."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id in ("pods", "persistentvolumeclaims") and operation == "CREATE"

    def _items(self, namespace: str, type_: str) -> Iterator[Raw]:
        for entry in self._store.list(namespace_below(_RANGES, namespace)).entries:
            for item in (orjson.loads(entry.value).get("spec") or {}).get("limits") or ():
                if item.get("type") == type_:
                    yield item

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        if attributes.where.served.kind.id != "pods":
            return obj
        requests: Raw = {}
        limits: Raw = {}
        for item in self._items(attributes.where.namespace, "Container"):
            requests |= {**(item.get("defaultRequest") or {})}
            limits |= {**(item.get("default") or {})}
        if not requests and not limits:
            return obj
        spec = {
            **obj["spec"],
            **{
                part: [_with_defaults(one, requests, limits) for one in obj["spec"][part]]
                for part in _PARTS
                if obj["spec"].get(part)
            },
        }
        return {**obj, "spec": spec}

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        if obj is None:
            return
        namespace = attributes.where.namespace
        faults: list[str] = []
        if attributes.where.served.kind.id == "persistentvolumeclaims":
            for item in self._items(namespace, "PersistentVolumeClaim"):
                resources = (obj.get("spec") or {}).get("resources") or {}
                faults += _faults(item, [(resources.get("requests") or {}, {})], "PersistentVolumeClaim")
        else:
            containers = [one.get("resources") or {} for part in _PARTS for one in obj["spec"].get(part) or ()]
            amounts = [(one.get("requests") or {}, one.get("limits") or {}) for one in containers]
            for item in self._items(namespace, "Container"):
                faults += _faults(item, amounts, "Container")
            for item in self._items(namespace, "Pod"):
                faults += _faults(item, [_sum_of(obj["spec"])], "Pod")
        if faults:
            resource = attributes.where.served.resource
            why = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
            raise api_errors.forbidden(resource, "", attributes.where.name, why)


def _with_defaults(container: Raw, requests: Raw, limits: Raw) -> Raw:
    resources = container.get("resources") or {}
    present_limits = resources.get("limits") or {}
    present_requests = resources.get("requests") or {}
    # a limit that the container sets itself is also its request, and a default must not lower it
    own = {name: value for name, value in present_limits.items() if name not in present_requests}
    merged: Raw = {
        **resources,
        "limits": {**limits, **present_limits},
        "requests": {**requests, **own, **present_requests},
    }
    return {**container, "resources": {key: value for key, value in merged.items() if value}}


def _amounts(quantities: Raw) -> Amounts:
    return {name: Fraction(parse_quantity(value)) for name, value in quantities.items()}


def _sum_of(spec: Raw) -> tuple[Raw, Raw]:
    """The larger of the sum of all containers and each init container, per resource."""
    totals: tuple[Raw, Raw] = ({}, {})
    for field, total in (("requests", totals[0]), ("limits", totals[1])):
        sums: Amounts = {}
        for container in spec.get("containers") or ():
            for name, amount in _amounts((container.get("resources") or {}).get(field) or {}).items():
                sums[name] = sums.get(name, Fraction(0)) + amount
        for container in spec.get("initContainers") or ():
            for name, amount in _amounts((container.get("resources") or {}).get(field) or {}).items():
                sums[name] = max(sums.get(name, Fraction(0)), amount)
        total |= {name: str(float(amount)) for name, amount in sums.items()}
    return totals


def _faults(item: Raw, amounts: Iterable[tuple[Raw, Raw]], type_: str) -> Iterator[str]:
    for requests, limits in amounts:
        wanted, allowed = _amounts(requests), _amounts(limits)
        yield from _compare(
            item.get("min") or {}, wanted, "minimum", type_, lambda mine, bound: mine < bound, "request"
        )
        most = item.get("max") or {}
        yield from _compare(most, allowed or wanted, "maximum", type_, lambda mine, bound: mine > bound, "limit")
        for name, ratio in _amounts(item.get("maxLimitRequestRatio") or {}).items():
            if wanted.get(name) and name in allowed and allowed[name] / wanted[name] > ratio:
                yield f"{name} max limit to request ratio per {type_} is {item['maxLimitRequestRatio'][name]}, but provided ratio is {float(allowed[name] / wanted[name]):f}"


def _compare(
    bounds: Raw, amounts: Amounts, word: str, type_: str, exceeds: Callable[[Fraction, Fraction], bool], field: str
) -> Iterator[str]:
    for name, bound in bounds.items():
        mine = amounts.get(name)
        if mine is None:
            yield f"{word} {name} usage per {type_} is {bound}. No {field} is specified"
        elif exceeds(mine, Fraction(parse_quantity(bound))):
            yield f"{word} {name} usage per {type_} is {bound}, but {field} is {float(mine):g}"
