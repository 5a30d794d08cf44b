"""Turns wanted objects into patches: only what changed, only declared fields, for the version that was read."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import astuple
from msgspec.structs import fields as fields_of

from trimtab.api.kind import kind_of
from trimtab.api.value import Object, Raw, Value

V = TypeVar("V", bound=Value)
LISTS_WITH_OWNERS = ("status.conditions.", "metadata.finalizers.")
"""Lists whose items have an owner each."""
_ONLY_TEXT = {str}
_UNCHANGED: Any = object()
_OMITTED: Any = object()
"""The value on the wire of a field that is omitted there."""
ITEM_NAMES = ("name", "clusterName", "fromCluster", "type", "cluster", "affinityName", "key")


class UndeclaredWrite(Exception):
    """A controller changed a field that its `writes` do not declare: a bug in the controller."""


class TakesStatus(Protocol):
    """A client, as far as a write depends on it."""

    @property
    def takes_status(self) -> bool:
        """Whether it takes an object and its status in one write."""


class Write(NamedTuple):
    """One merge patch, to the object or to its status."""

    subresource: str
    patch: Raw


def difference(before: Mapping[str, Any], after: Mapping[str, Any], raw: Any = None) -> Raw:
    """The smallest JSON merge patch that turns `before` into `after`.

    `raw` is the object as the server has it: a merge patch replaces whole lists, so the fields of list items that our
    types do not declare are copied from there.
    """
    raw = raw if isinstance(raw, dict) else {}
    patch: Raw = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        old = before.get(name)
        if old is not value and (change := _change_of(old, value, raw.get(name))) is not _UNCHANGED:
            patch[name] = change
    return patch


def _change_of(old: Any, new: Any, raw: Any) -> Any:
    """What the patch of a field contains; `_UNCHANGED` if it is equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        return difference(old, new, raw) or _UNCHANGED
    if old == new:
        return _UNCHANGED
    return with_undeclared_fields(old, new, raw) if isinstance(old, list) else new


def with_undeclared_fields(before: Any, after: Any, raw: Any) -> Any:
    """The new items of a list, each with the undeclared fields of the item it replaces."""
    if not (isinstance(before, list) and isinstance(after, list) and isinstance(raw, list) and len(before) == len(raw)):
        return after
    predecessors = {_item_identity(b): (b, r) for b, r in zip(before, raw, strict=True) if isinstance(b, dict)}
    return [_with_unknown_fields(item, *predecessors.get(_item_identity(item), ({}, {}))) for item in after]


def _item_identity(item: Any) -> Any:
    if not isinstance(item, dict):
        return None
    return next(((name, item[name]) for name in ITEM_NAMES if isinstance(item.get(name), str)), None)


def _with_unknown_fields(item: Any, known: Raw, raw: Raw) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: raw[name] for name in raw.keys() - known.keys() - item.keys()} | item


def writes_for(
    before: Object,
    after: Object,
    raw: Raw,
    declared: tuple[str, ...],
    subjects: tuple[type[Object], ...],
    client: TakesStatus,
) -> list[Write]:
    """The patches from `before` to `after`: one if the client takes both parts in one, else the status last."""
    patch = typed_difference(before, after, raw)
    if not patch:
        return []
    check_declared_fields(patch, declared, type(before), subjects, raw)
    if "status" not in patch or not kind_of(before).status or (len(patch) > 1 and client.takes_status):
        return [Write("", patch)]
    status = patch.pop("status")
    writes = [Write("", patch)] if patch else []
    if status is not None:
        writes.append(Write("status", {"status": status}))
    return writes


def typed_difference(before: V, after: V, raw: Any) -> Raw:
    """The merge patch between two typed values; parts that are the same object are skipped without comparing."""
    raw = raw if isinstance(raw, dict) else {}
    patch: Raw = {}
    for member, old, new in zip(_wire_fields(type(before)), astuple(before), astuple(after), strict=True):
        if old is new:
            continue
        if isinstance(old, Value) and type(old) is type(new):
            if inner := typed_difference(old, new, raw.get(member.wire_name)):
                patch[member.wire_name] = inner
        elif old != new:
            name, was, wanted = member.wire_name, member.to_wire(old), member.to_wire(new)
            if wanted is not _OMITTED:
                change = _change_of(None if was is _OMITTED else was, wanted, raw.get(name))
                if change is not _UNCHANGED:
                    patch[name] = change
            elif was is not _OMITTED:
                patch[name] = None
    return patch


class WireField(NamedTuple):
    """A field of a type: its name on the wire, and the values that are omitted there."""

    wire_name: str
    default: Any
    default_factory: Any
    """The type of the container that is omitted when it is empty."""

    def to_wire(self, value: Any) -> Any:
        """The value on the wire; `_OMITTED` if it is omitted."""
        is_omitted = value is self.default or (type(value) is self.default_factory and not value)
        return _OMITTED if is_omitted else to_plain_json(value)


@cache
def _wire_fields(type_: type[Value]) -> tuple[WireField, ...]:
    return tuple(WireField(field.encode_name, field.default, field.default_factory) for field in fields_of(type_))


def to_plain_json(value: Any) -> Any:
    """Encode and decode the value as JSON, so that tuples become lists, as the server has them."""
    if value is None or type(value) in (str, int, bool) or (type(value) is dict and _has_only_text(value)):
        return value
    return msgspec.json.decode(msgspec.json.encode(value))


def _has_only_text(value: dict[Any, Any]) -> bool:
    """Whether this is a map of texts, such as labels: it needs no copy, and a large text stays shared."""
    return {*map(type, value), *map(type, value.values())} == _ONLY_TEXT


def check_declared_fields(
    patch: Raw,
    declared: tuple[str, ...],
    type_: type[Object],
    subjects: tuple[type[Object], ...],
    raw: Raw | None = None,
) -> None:
    """Raise `UndeclaredWrite` when the patch touches an undeclared field; `raw` is the object before the patch.

    Conditions are declared by type, annotations, labels and finalizers by key: `status.conditions[Ready]`.
    """
    prefixes = _declared_prefixes(declared, type_, subjects)
    if prefixes is not None and (foreign := _first_path_outside(prefixes, patch, raw or {})):
        raise UndeclaredWrite(f"{kind_of(type_).name}.{foreign}")


@cache
def _declared_prefixes(
    declared: tuple[str, ...], type_: type[Object], subjects: tuple[type[Object], ...]
) -> tuple[str, ...] | None:
    """The prefixes of the paths declared for this type; `None` when the whole type is declared."""
    name = kind_of(type_).name
    if name in declared:
        return None
    named = [f"{own.removesuffix(']').replace('[', '.')}." for own in declared]
    prefixes = [own.removeprefix(f"{name}.") for own in named if own.startswith(f"{name}.")]
    if type_ in subjects:
        prefixes += [own for own in named if not own[:1].isupper()]
    return tuple(prefixes)


def _first_path_outside(prefixes: tuple[str, ...], patch: Raw, raw: Raw, parent: str = "") -> str:
    """The path of the first field in the patch that has none of these prefixes; empty if there is none."""
    for name, value in patch.items():
        path = f"{parent}{name}."
        if path.startswith(prefixes):
            continue
        before = raw.get(name)
        inner = _changed_items(before, value) if path in LISTS_WITH_OWNERS else value
        if isinstance(inner, dict) and (inner or path in LISTS_WITH_OWNERS):
            foreign = _first_path_outside(prefixes, inner, before if isinstance(before, dict) else {}, path)
        else:
            foreign = parent + name
        if foreign:
            return foreign
    return ""


def _changed_items(before: Any, after: Any) -> Raw:
    """The items of a list that a patch adds, changes or removes, by type or by themselves."""
    old, new = _items_by_name(before), _items_by_name(after)
    return {name: True for name in {**old, **new} if old.get(name) != new.get(name)}


def _items_by_name(items: Any) -> Raw:
    return {str(item.get("type", "") if isinstance(item, dict) else item): item for item in items or ()}


def is_same_in_patched_fields(patch: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two states of an object agree in every field that the patch touches."""
    for name, value in patch.items():
        here, there = one.get(name), other.get(name)
        if isinstance(value, dict) and isinstance(here, dict) and isinstance(there, dict):
            if not is_same_in_patched_fields(value, here, there):
                return False
        elif here != there:
            return False
    return True


def with_version(patch: Raw, revision: str) -> Raw:
    """The patch with the resourceVersion for which it is valid."""
    if not revision:
        return patch
    return patch | {"metadata": (patch.get("metadata") or {}) | {"resourceVersion": revision}}
