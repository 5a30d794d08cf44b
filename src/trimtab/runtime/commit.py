"""From wishes to writes: send only what changed, only what the controller owns, with the version it was thought from."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import astuple
from msgspec.structs import fields as fields_of

from trimtab.api.kind import kind_of
from trimtab.api.value import Object, Raw, Value

V = TypeVar("V", bound=Value)
ITEM_NAMES = ("name", "clusterName", "fromCluster", "type", "cluster", "affinityName", "key")


class NotYours(Exception):
    """A controller wished for a change in a field that it never declared it writes: a defect of the controller."""


class Write(NamedTuple):
    """One merge patch, to the object or to its status."""

    subresource: str
    patch: Raw


def difference(before: Mapping[str, Any], after: Mapping[str, Any], raw: Any = None) -> Raw:
    """The smallest JSON merge patch that turns `before` into `after`.

    `raw` is the object as the server holds it: a merge patch replaces whole lists, so the fields of list items that
    our types do not model are taken over from there.
    """
    raw = raw if isinstance(raw, dict) else {}
    patch: Raw = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := difference(old, value, raw.get(name)):
                patch[name] = inner
        elif old != value:
            patch[name] = graft(old, value, raw.get(name))
    return patch


def graft(before: Any, after: Any, raw: Any) -> Any:
    """A list's new items, each with what its predecessor carried beyond our types."""
    if not (isinstance(before, list) and isinstance(after, list) and isinstance(raw, list) and len(before) == len(raw)):
        return after
    predecessors = {_identity(b): (b, r) for b, r in zip(before, raw, strict=True) if isinstance(b, dict)}
    return [_keep_unknown(item, *predecessors.get(_identity(item), ({}, {}))) for item in after]


def _identity(item: Any) -> Any:
    if not isinstance(item, dict):
        return None
    return next(((name, item[name]) for name in ITEM_NAMES if isinstance(item.get(name), str)), None)


def _keep_unknown(item: Any, known: Raw, raw: Raw) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: raw[name] for name in raw.keys() - known.keys() - item.keys()} | item


def writes_for(
    seen: Object, wished: Object, raw: Raw, owned: tuple[str, ...], subjects: tuple[type[Object], ...], *, whole: bool
) -> Iterator[Write]:
    """The patches that turn what was `seen` into what is `wished`: one for the `whole`, or its status after the rest."""
    patch = changes(seen, wished, raw)
    if not patch:
        return
    refuse_foreign_fields(patch, owned, type(seen), subjects)
    apart = kind_of(seen).status and not (whole and len(patch) > 1)
    status = patch.pop("status", None) if apart else None
    if patch:
        yield Write("", patch)
    if status is not None:
        yield Write("status", {"status": status})


def changes(before: V, after: V, raw: Any) -> Raw:
    """The difference of two values of a type: most of a wish is what was seen, handed on, and need not be looked at."""
    raw = raw if isinstance(raw, dict) else {}
    patch: Raw = {}
    for member, old, new in zip(_members(type(before)), astuple(before), astuple(after), strict=True):
        if old is new:
            continue
        if isinstance(old, Value) and type(old) is type(new):
            if inner := changes(old, new, raw.get(member.spelled)):
                patch[member.spelled] = inner
        elif old != new:
            patch |= difference(member.said(old), member.said(new), raw)
    return patch


class Member(NamedTuple):
    """A field of a type: how it is spelled on the wire, and what it holds when it is left unsaid there."""

    spelled: str
    blank: Any
    empty: Any
    """The type of the container that is left unsaid when there is nothing in it."""

    def said(self, value: Any) -> Raw:
        """What an object with this value has on the wire."""
        unsaid = value is self.blank or (type(value) is self.empty and not value)
        return {} if unsaid else {self.spelled: plain(value)}


@cache
def _members(type_: type[Value]) -> tuple[Member, ...]:
    return tuple(Member(field.encode_name, field.default, field.default_factory) for field in fields_of(type_))


def plain(value: Any) -> Any:
    """Through JSON, so that tuples become lists, as the server holds them."""
    if value is None or type(value) in (str, int, bool):
        return value
    return msgspec.json.decode(msgspec.json.encode(value))


def refuse_foreign_fields(
    patch: Raw, owned: tuple[str, ...], type_: type[Object], subjects: tuple[type[Object], ...]
) -> None:
    """Complain when the patch leaves the fields that were declared."""
    prefixes = _prefixes(owned, type_, subjects)
    if prefixes is not None and (foreign := _beyond(prefixes, patch)):
        raise NotYours(f"{kind_of(type_).name}.{foreign}")


@cache
def _prefixes(
    owned: tuple[str, ...], type_: type[Object], subjects: tuple[type[Object], ...]
) -> tuple[str, ...] | None:
    """How the paths of the fields begin that were declared for objects of this type; None when all of them were."""
    name = kind_of(type_).name
    if name in owned:
        return None
    named = [f"{own}." for own in owned]
    prefixes = [own.removeprefix(f"{name}.") for own in named if own.startswith(f"{name}.")]
    if type_ in subjects:
        prefixes += [own for own in named if not own[:1].isupper()]
    return tuple(prefixes)


def _beyond(prefixes: tuple[str, ...], patch: Raw, above: str = "") -> str:
    """The path of the first field in the patch that begins with none of these; empty when there is none."""
    for name, value in patch.items():
        path = f"{above}{name}."
        if not path.startswith(prefixes):
            foreign = _beyond(prefixes, value, path) if isinstance(value, dict) and value else above + name
            if foreign:
                return foreign
    return ""


def alike_where(patch: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two states of an object agree in every field that the patch touches."""
    for name, value in patch.items():
        here, there = one.get(name), other.get(name)
        if isinstance(value, dict) and isinstance(here, dict) and isinstance(there, dict):
            if not alike_where(value, here, there):
                return False
        elif here != there:
            return False
    return True


def with_version(patch: Raw, revision: str) -> Raw:
    """The patch, valid only for the version it was thought from."""
    if not revision:
        return patch
    return patch | {"metadata": (patch.get("metadata") or {}) | {"resourceVersion": revision}}
