"""LimitRanger: pods and claims get the defaults of the LimitRanges of their namespace and must stay within them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import orjson

from trimtab.api.kind import Kind
from trimtab.api.limits import MAX_OBJECT_NODES
from trimtab.api.quantity import parse_quantity
from trimtab.api.value import Raw
from trimtab.errors import TooLarge
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.request import large_objects
from trimtab.store.keys import namespace_below, resource_prefix
from trimtab.store.store import Store

_RANGES = resource_prefix("", "limitranges")
_PARTS = ("containers", "initContainers")
_BOUNDS = ("min", "max", "maxLimitRequestRatio")
_MAX_AMOUNTS_IN_LOOP = 2_000
"""Amounts that are set or compared in the event loop, a few microseconds each."""
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
        count = sum(len(obj["spec"].get(part) or ()) for part in _PARTS) * (len(requests) + len(limits))
        if count > MAX_OBJECT_NODES:
            raise TooLarge(f"the object cannot be stored: with its defaults it has more than {MAX_OBJECT_NODES} values")
        if count > _MAX_AMOUNTS_IN_LOOP:
            attributes.caller.sends_large_object = True  # what follows takes long as well
        return await large_objects.run(count > _MAX_AMOUNTS_IN_LOOP, _pod_with_defaults, obj, requests, limits)

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        if obj is None:
            return
        namespace, checks = attributes.where.namespace, list[_Check]()
        if attributes.where.served.kind.id == "persistentvolumeclaims":
            resources = (obj.get("spec") or {}).get("resources") or {}
            for item in self._items(namespace, "PersistentVolumeClaim"):
                checks.append(_Check(item, [(resources.get("requests") or {}, {})], "PersistentVolumeClaim"))
        else:
            containers = [one.get("resources") or {} for part in _PARTS for one in obj["spec"].get(part) or ()]
            amounts = [(one.get("requests") or {}, one.get("limits") or {}) for one in containers]
            checks += [_Check(item, amounts, "Container") for item in self._items(namespace, "Container")]
            if items := [*self._items(namespace, "Pod")]:
                is_large = attributes.caller.sends_large_object
                total = await large_objects.run(is_large, _sum_of, obj["spec"])
                checks += [_Check(item, [total], "Pod") for item in items]
        steps = sum(check.steps for check in checks)
        if faults := await large_objects.run(steps > _MAX_AMOUNTS_IN_LOOP, _all_faults, checks):
            resource = attributes.where.served.resource
            why = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
            raise api_errors.forbidden(resource, "", attributes.where.name, why)


class _Check(NamedTuple):
    """One entry of a LimitRange with the requests and limits that it bounds."""

    item: Raw
    amounts: Sequence[tuple[Raw, Raw]]
    type: str

    @property
    def steps(self) -> int:
        return len(self.amounts) * sum(len(self.item.get(field) or {}) for field in _BOUNDS)


def _all_faults(checks: Iterable[_Check]) -> list[str]:
    return [fault for check in checks for fault in _faults(*check)]


def _pod_with_defaults(obj: Raw, requests: Raw, limits: Raw) -> Raw:
    spec = obj["spec"]
    parts = {part: [_with_defaults(one, requests, limits) for one in spec[part]] for part in _PARTS if spec.get(part)}
    return {**obj, "spec": {**spec, **parts}}


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


def _amounts(quantities: Raw, names: Iterable[str]) -> Amounts:
    """Those of the quantities that have one of these names."""
    return {name: Fraction(parse_quantity(quantities[name])) for name in names if name in quantities}


def _sum_of(spec: Raw) -> tuple[Raw, Raw]:
    """The larger of the sum of all containers and each init container, per resource."""
    totals: tuple[Raw, Raw] = ({}, {})
    for field, total in (("requests", totals[0]), ("limits", totals[1])):
        sums: Amounts = {}
        for container in spec.get("containers") or ():
            quantities = (container.get("resources") or {}).get(field) or {}
            for name, amount in _amounts(quantities, quantities).items():
                sums[name] = sums.get(name, Fraction(0)) + amount
        for container in spec.get("initContainers") or ():
            quantities = (container.get("resources") or {}).get(field) or {}
            for name, amount in _amounts(quantities, quantities).items():
                sums[name] = max(sums.get(name, Fraction(0)), amount)
        total |= {name: str(float(amount)) for name, amount in sums.items()}
    return totals


def _faults(item: Raw, amounts: Iterable[tuple[Raw, Raw]], type_: str) -> Iterator[str]:
    names = {name for field in _BOUNDS for name in item.get(field) or ()}
    ratios = item.get("maxLimitRequestRatio") or {}
    for requests, limits in amounts:
        wanted, allowed = _amounts(requests, names), _amounts(limits, names)
        yield from _compare(
            item.get("min") or {}, wanted, "minimum", type_, lambda mine, bound: mine < bound, "request"
        )
        most = item.get("max") or {}
        bounded = allowed if limits else wanted
        yield from _compare(most, bounded, "maximum", type_, lambda mine, bound: mine > bound, "limit")
        for name, ratio in _amounts(ratios, ratios).items():
            if wanted.get(name) and name in allowed and allowed[name] / wanted[name] > ratio:
                yield f"{name} max limit to request ratio per {type_} is {ratios[name]}, but provided ratio is {float(allowed[name] / wanted[name]):f}"


def _compare(
    bounds: Raw, amounts: Amounts, word: str, type_: str, exceeds: Callable[[Fraction, Fraction], bool], field: str
) -> Iterator[str]:
    for name, bound in bounds.items():
        mine = amounts.get(name)
        if mine is None:
            yield f"{word} {name} usage per {type_} is {bound}. No {field} is specified"
        elif exceeds(mine, Fraction(parse_quantity(bound))):
            yield f"{word} {name} usage per {type_} is {bound}, but {field} is {float(mine):g}"
