"""From wishes to writes: send only what changed, only what the controller owns, with the version it was thought from."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec

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
    patch = difference(*unlike(seen, wished), raw)
    if not patch:
        return
    refuse_foreign_fields(patch, owned, type(seen), subjects)
    apart = kind_of(seen).status and not (whole and len(patch) > 1)
    status = patch.pop("status", None) if apart else None
    if patch:
        yield Write("", patch)
    if status is not None:
        yield Write("status", {"status": status})


def unlike(one: V, other: V) -> tuple[Raw, Raw]:
    """What two values have that the other has not, as it is on the wire: most of a wish is what was seen, handed on."""
    here: Raw = {}
    there: Raw = {}
    for name, member in _members(type(one)):
        mine, yours = getattr(one, name), getattr(other, name)
        if mine is yours:
            continue
        if isinstance(mine, Value) and type(mine) is type(yours):
            inner = unlike(mine, yours)
            if any(inner):
                here[member.spelled], there[member.spelled] = inner
        elif mine != yours:
            if not member.is_unsaid(mine):
                here[member.spelled] = plain(mine)
            if not member.is_unsaid(yours):
                there[member.spelled] = plain(yours)
    return here, there


class Member(NamedTuple):
    """A field of a type: how it is spelled on the wire, and what it holds when it is left unsaid there."""

    spelled: str
    blank: Any
    empty: Any
    """The type of the container that is left unsaid when there is nothing in it."""

    def is_unsaid(self, value: Any) -> bool:
        """As the encoder sees it."""
        return value is self.blank or (type(value) is self.empty and not value)


@cache
def _members(type_: type[Value]) -> tuple[tuple[str, Member], ...]:
    return tuple(
        (field.name, Member(field.encode_name, field.default, field.default_factory))
        for field in msgspec.structs.fields(type_)
    )


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
    if prefixes is None:
        return
    for path in _paths(patch):
        if not f"{path}.".startswith(prefixes):
            raise NotYours(f"{kind_of(type_).name}.{path}")


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


def _paths(patch: Raw, prefix: str = "") -> Iterator[str]:
    for name, value in patch.items():
        if isinstance(value, dict) and value:
            yield from _paths(value, f"{prefix}{name}.")
        else:
            yield prefix + name


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
