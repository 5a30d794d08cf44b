"""LimitRanger: pods and claims get the defaults of the LimitRanges of their namespace and must stay within them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import orjson

from trimtab.api.kind import Kind
from trimtab.api.limits import MAX_OBJECT_NODES
from trimtab.api.quantity import add_quantities, canonical_form, parse_quantity
from trimtab.api.value import QuantityText, Raw
from trimtab.errors import TooLarge
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.request import large_objects
from trimtab.store.keys import namespace_below, resource_prefix
from trimtab.store.store import Store

_RANGES = resource_prefix("", "limitranges")
_PARTS = ("containers", "initContainers")
_OPERATIONS = {"pods": ("CREATE",), "persistentvolumeclaims": ("CREATE", "UPDATE")}
"""Containers of a pod cannot change; a claim may ask for more."""
_ANNOTATION = "kubernetes.io/limit-ranger"
_NOUNS = {"containers": "container", "initContainers": "init container"}
_BOUNDS = ("min", "max", "maxLimitRequestRatio")
_MAX_AMOUNTS_IN_LOOP = 2_000
"""Amounts that are set or compared in the event loop, a few microseconds each."""


class LimitRanger:
    """A plugin for pods and claims; it lists LimitRanges only for those."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, kind: Kind, operation: str) -> bool:
        return operation in _OPERATIONS.get(kind.id, ())

    def _items(self, namespace: str) -> list[Raw]:
        """The items of all LimitRanges of a namespace."""
        ranges = self._store.list(namespace_below(_RANGES, namespace)).entries
        return [item for one in ranges for item in (orjson.loads(one.value).get("spec") or {}).get("limits") or ()]

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        if attributes.where.served.kind.id != "pods":
            return obj
        requests: Raw = {}
        limits: Raw = {}
        for item in _of_type(self._items(attributes.where.namespace), "Container"):
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
        items, checks = self._items(attributes.where.namespace), list[_Check]()
        if not items:
            return
        if attributes.where.served.kind.id == "persistentvolumeclaims":
            resources = (obj.get("spec") or {}).get("resources") or {}
            for item in _of_type(items, "PersistentVolumeClaim"):
                checks.append(_Check(item, [(resources.get("requests") or {}, {})], "PersistentVolumeClaim"))
        else:
            containers = [one.get("resources") or {} for part in _PARTS for one in obj["spec"].get(part) or ()]
            amounts = [(one.get("requests") or {}, one.get("limits") or {}) for one in containers]
            checks += [_Check(item, amounts, "Container") for item in _of_type(items, "Container")]
            if of_pods := _of_type(items, "Pod"):
                is_large = attributes.caller.sends_large_object
                total = await large_objects.run(is_large, _sum_of, obj["spec"])
                checks += [_Check(item, [total], "Pod") for item in of_pods]
        steps = sum(check.steps for check in checks)
        if faults := await large_objects.run(steps > _MAX_AMOUNTS_IN_LOOP, _all_faults, checks):
            resource = attributes.where.served.resource
            why = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
            raise api_errors.forbidden(resource, "", attributes.where.name, why)


def _of_type(items: Iterable[Raw], type_: str) -> list[Raw]:
    return [item for item in items if item.get("type") == type_]


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
    spec, notes = obj["spec"], list[str]()
    parts: Raw = {}
    for part in _PARTS:
        if spec.get(part):
            parts[part] = [_with_defaults(one, requests, limits, _NOUNS[part], notes) for one in spec[part]]
    if not notes:
        return obj
    metadata = obj["metadata"]
    annotations = {**(metadata.get("annotations") or {}), _ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}
    return {**obj, "metadata": {**metadata, "annotations": annotations}, "spec": {**spec, **parts}}


def _with_defaults(container: Raw, requests: Raw, limits: Raw, noun: str, notes: list[str]) -> Raw:
    resources = container.get("resources") or {}
    present_limits = resources.get("limits") or {}
    # a limit that the container sets itself is also its request, and a default must not lower it
    present_requests = {**present_limits, **(resources.get("requests") or {})}
    for word, defaults, present in (("request", requests, present_requests), ("limit", limits, present_limits)):
        if added := sorted(name for name in defaults if name not in present):
            notes.append(f"{', '.join(added)} {word} for {noun} {container.get('name', '')}")
    merged: Raw = {
        **resources,
        "limits": {**limits, **present_limits},
        "requests": {**requests, **present_requests},
    }
    return {**container, "resources": {key: value for key, value in merged.items() if value}}


def _sum_of(spec: Raw) -> tuple[Raw, Raw]:
    """The requests and the limits of a pod: all containers and sidecars together, or the most that an init phase has."""
    totals: tuple[Raw, Raw] = ({}, {})
    for field, total in (("requests", totals[0]), ("limits", totals[1])):
        sidecars: dict[str, list[QuantityText]] = {}
        phases: list[dict[str, list[QuantityText]]] = []
        running: dict[str, list[QuantityText]] = {}
        for container in spec.get("initContainers") or ():
            quantities = (container.get("resources") or {}).get(field) or {}
            if container.get("restartPolicy") == "Always":
                _append(sidecars, quantities)
                _append(running, quantities)
                phases.append({name: [*amounts] for name, amounts in sidecars.items()})
            else:
                phase = {name: [*amounts] for name, amounts in sidecars.items()}
                _append(phase, quantities)
                phases.append(phase)
        for container in spec.get("containers") or ():
            _append(running, (container.get("resources") or {}).get(field) or {})
        for name in {name for amounts in (running, *phases) for name in amounts}:
            sums = [add_quantities(amounts[name]) for amounts in (running, *phases) if name in amounts]
            total[name] = max(sums, key=parse_quantity)
    return totals


def _append(amounts: dict[str, list[QuantityText]], quantities: Raw) -> None:
    for name, quantity in quantities.items():
        amounts.setdefault(name, []).append(quantity)


def _faults(item: Raw, amounts: Iterable[tuple[Raw, Raw]], type_: str) -> Iterator[str]:
    is_claim = type_ == "PersistentVolumeClaim"
    for requests, limits in amounts:
        for name, bound in (item.get("min") or {}).items():
            yield from _minimum_fault(name, bound, requests.get(name), limits.get(name), type_)
        for name, bound in (item.get("max") or {}).items():
            if is_claim:
                yield from _maximum_fault(name, bound, None, requests.get(name), type_, "request")
            else:
                yield from _maximum_fault(name, bound, requests.get(name), limits.get(name), type_, "limit")
        for name, ratio in (item.get("maxLimitRequestRatio") or {}).items() if not is_claim else ():
            yield from _ratio_fault(name, ratio, requests.get(name), limits.get(name), type_)


def _minimum_fault(
    name: str, bound: QuantityText, request: QuantityText | None, limit: QuantityText | None, type_: str
) -> Iterator[str]:
    text = f"minimum {name} usage per {type_} is {canonical_form(bound)}"
    if request is None:
        yield f"{text}.  No request is specified"
    elif parse_quantity(request) < parse_quantity(bound):
        yield f"{text}, but request is {canonical_form(request)}"
    elif limit is not None and parse_quantity(limit) < parse_quantity(bound):
        yield f"{text}, but limit is {canonical_form(limit)}"


def _maximum_fault(
    name: str, bound: QuantityText, request: QuantityText | None, limit: QuantityText | None, type_: str, noun: str
) -> Iterator[str]:
    text = f"maximum {name} usage per {type_} is {canonical_form(bound)}"
    if limit is None:
        yield f"{text}.  No {noun} is specified"
    elif parse_quantity(limit) > parse_quantity(bound):
        yield f"{text}, but {noun} is {canonical_form(limit)}"
    elif request is not None and parse_quantity(request) > parse_quantity(bound):
        yield f"{text}, but request is {canonical_form(request)}"


def _ratio_fault(
    name: str, ratio: QuantityText, request: QuantityText | None, limit: QuantityText | None, type_: str
) -> Iterator[str]:
    text = f"{name} max limit to request ratio per {type_} is {canonical_form(ratio)}"
    if request is None or not parse_quantity(request):
        yield f"{text}, but no request is specified or request is 0"
    elif limit is None or not parse_quantity(limit):
        yield f"{text}, but no limit is specified or limit is 0"
    elif (provided := parse_quantity(limit) / parse_quantity(request)) > parse_quantity(ratio):
        yield f"{text}, but provided ratio is {float(provided):f}"
