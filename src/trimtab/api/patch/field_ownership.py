"""Sets of fields, in the form `metadata.managedFields` keeps them: who owns what, and what changed between two objects.

A set is a tree of path elements: `f:name` a member, `k:{...}` a list item by its keys, `v:"x"` an item of a set. A leaf is
`{}`; a node that is itself in the set and has children carries `.`. The root is never a member.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from msgspec import Struct

from trimtab.api.patch.merge_schema import ANYTHING, Form, Shape
from trimtab.api.value import Raw

FieldSet = dict[str, Any]
LEAF: FieldSet = {}
_SELF: FieldSet = {".": LEAF}
_CONTAINERS = frozenset((dict, list))


def is_member(node: FieldSet) -> bool:
    return not node or "." in node


def is_field_set(fields: Any) -> bool:
    """Whether something sent from outside can be read as a set of fields."""
    return isinstance(fields, dict) and all(_is_element(key) and is_field_set(node) for key, node in fields.items())


def _is_element(text: str) -> bool:
    if text == "." or text.startswith("f:"):
        return True
    try:
        value = orjson.loads(text[2:])
    except orjson.JSONDecodeError:
        return False
    return (
        text[:2] == "v:"
        or (text[:2] == "k:" and isinstance(value, dict))
        or (text[:2] == "i:" and isinstance(value, int))
    )


def _join(one: FieldSet, other: FieldSet) -> FieldSet:
    if not one:
        return other if is_member(other) else {**_SELF, **other}
    if not other:
        return one if "." in one else {**_SELF, **one}
    return union(one, other)


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in either set (at the root; below it an empty node is a member)."""
    if not one or not other:
        return one or other
    joined = dict(one)
    for element, node in other.items():
        joined[element] = _join(joined[element], node) if element in joined else node
    return joined


def _without(one: FieldSet, other: FieldSet) -> FieldSet | None:
    if not is_member(other) and one.keys().isdisjoint(other):
        return one
    rest = difference({k: v for k, v in one.items() if k != "."}, other) if one else {}
    if is_member(one) and not is_member(other):
        return {**_SELF, **rest} if rest else LEAF
    return rest or None


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in `one` but not in `other`; the very same when nothing is in both."""
    if one.keys().isdisjoint(other):
        return one
    rest: FieldSet = {}
    same = True
    for element, node in one.items():
        left = node if element not in other else _without(node, other[element]) if element != "." else None
        same = same and left is node
        if left is not None:
            rest[element] = left
    return one if same else rest


def _both(one: FieldSet, other: FieldSet) -> FieldSet | None:
    shared = intersection(one, other)
    if is_member(one) and is_member(other):
        return {**_SELF, **shared} if shared else LEAF
    return shared or None


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in both sets."""
    shared: FieldSet = {}
    for element, node in one.items():
        if element != "." and element in other and (found := _both(node, other[element])) is not None:
            shared[element] = found
    return shared


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Every member as text (`.spec.containers[name="c"].image`), the nearer ones first."""
    inner = sorted(element for element in fields if element != ".")
    for element in inner:
        if is_member(fields[element]):
            yield prefix + _path_text(element)
    for element in inner:
        yield from paths(fields[element], prefix + _path_text(element))


def _path_text(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = orjson.loads(text)
        return "[" + ",".join(f"{key}={_scalar_text(keys[key])}" for key in sorted(keys)) + "]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


def _scalar_text(value: Any) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # a whole number beyond 64 bits
        return json.dumps(value, sort_keys=True, separators=(",", ":"))


def item_element(item: Any, shape: Shape) -> str | None:
    """The path element of a list item; None when it lacks a key."""
    if shape.form is Form.SET:
        return f"v:{_scalar_text(item)}"
    if not isinstance(item, dict):
        return None
    keys: Raw = {}
    for key in shape.keys:
        value = item.get(key)
        if value is None:
            value = shape.key_defaults.get(key)
            if value is None:
                return None
        keys[key] = value
    return f"k:{_scalar_text(keys)}"


def items_by_element(items: Sequence[Any], shape: Shape) -> dict[str, Any]:
    """List items by path element; items that lack their keys are left out."""
    found: dict[str, Any] = {}
    for item in items:
        element = item_element(item, shape)
        if element is not None:
            found[element] = item
    return found


def _granular(value: Any, shape: Shape) -> bool:
    """Whether the members of this value are owned one by one."""
    if not value:
        return False
    return shape.maps_merge if isinstance(value, dict) else isinstance(value, list) and shape.lists_merge


def everything(value: Any, shape: Shape) -> FieldSet:
    """The set of a value that was not there before: it, and all that is in it."""
    if not value:
        return LEAF
    if type(value) is dict and shape.maps_merge:
        members, rest = shape.fields, shape.rest or ANYTHING
        fields: FieldSet = {".": LEAF}
        for name, item in value.items():
            holds = item and type(item) in _CONTAINERS
            fields["f:" + name] = everything(item, members.get(name) or rest) if holds else LEAF
        return fields
    if type(value) is list and shape.lists_merge:
        inner = shape.item
        return {".": LEAF, **{key: everything(item, inner) for key, item in items_by_element(value, shape).items()}}
    return LEAF


def applied(value: Any, shape: Shape) -> FieldSet:
    """The set that an applied configuration claims: its leaves and its list items, not the structs around them."""
    if not _granular(value, shape):
        return LEAF
    fields: FieldSet = {}
    if isinstance(value, dict):
        for name, item in value.items():
            declared = shape.fields.get(name)
            inner = declared or shape.rest or ANYTHING
            node = applied(item, inner)
            if node and declared is None and "." not in node:
                node = {**_SELF, **node}
            if node or not isinstance(item, list) or inner.form not in (Form.KEYED, Form.SET):
                fields[f"f:{name}"] = node
    else:
        for element, item in items_by_element(value, shape).items():
            fields[element] = {**_SELF, **inside} if (inside := applied(item, shape.item)) else LEAF
    return fields


class Comparison(Struct, frozen=True):
    """How one object differs from another, as sets of fields."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


_SAME = Comparison({}, {}, {})
_LEAF_CHANGED = object()


def _members(value: Any, shape: Shape) -> dict[str, tuple[Any, Shape]]:
    if isinstance(value, dict):
        members = shape.fields
        return {f"f:{name}": (item, members.get(name) or shape.rest or ANYTHING) for name, item in value.items()}
    if isinstance(value, list):
        inner = shape.item
        return {element: (item, inner) for element, item in items_by_element(value, shape).items()}
    return {}


def _compare(old: Any, new: Any, shape: Shape) -> Any:
    """The three parts of a `Comparison` of what is inside, or `_LEAF_CHANGED`, or None when nothing differs."""
    if old == new:
        return None
    if type(old) is dict and type(new) is dict:
        return _compare_maps(old, new, shape) if shape.maps_merge else _LEAF_CHANGED
    if not (_granular(old, shape) or _granular(new, shape)):
        return _LEAF_CHANGED
    before, after = _members(old, shape), _members(new, shape)
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    for element, (item, inner) in after.items():
        if element not in before:
            added[element] = everything(item, inner)
            continue
        found = _compare(before[element][0], item, inner)
        if found is _LEAF_CHANGED:
            modified[element] = LEAF
        elif found is not None:
            for target, part in zip((added, modified, removed), found, strict=True):
                if part:
                    target[element] = LEAF if part == _SELF else part
    for element, (item, inner) in before.items():
        if element not in after:
            removed[element] = everything(item, inner)
    if shape.form is Form.ANY and None not in (old, new) and isinstance(old, dict) != isinstance(new, dict):
        modified["."] = LEAF  # it became another type of value
    return added, modified, removed


def _compare_maps(old: Raw, new: Raw, shape: Shape) -> tuple[FieldSet, FieldSet, FieldSet]:
    """The same for two maps, which is what nearly everything is: without a table of their members."""
    members, rest = shape.fields, shape.rest or ANYTHING
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    for name, item in new.items():
        if name not in old:
            holds = item and type(item) in _CONTAINERS
            added["f:" + name] = everything(item, members.get(name) or rest) if holds else LEAF
        elif (before := old[name]) is not item:
            if type(item) not in _CONTAINERS and type(before) not in _CONTAINERS:
                if before != item:
                    modified["f:" + name] = LEAF
                continue
            found = _compare(before, item, members.get(name) or rest)
            if found is _LEAF_CHANGED:
                modified["f:" + name] = LEAF
            elif found is not None:
                for target, part in zip((added, modified, removed), found, strict=True):
                    if part:
                        target["f:" + name] = LEAF if part == _SELF else part
    for name, item in old.items():
        if name not in new:
            removed["f:" + name] = everything(item, members.get(name) or rest)
    return added, modified, removed


def compare(old: Raw, new: Raw, shape: Shape) -> Comparison:
    """What changed between two whole objects."""
    found = _compare(old, new, shape)
    return Comparison(*found) if isinstance(found, tuple) else _SAME
