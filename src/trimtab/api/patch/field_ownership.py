"""Sets of fields in the form of `metadata.managedFields`, and the fields that differ between two objects."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from msgspec import Struct

from trimtab.api.patch.merge_schema import UNKNOWN_SCHEMA, MergeSchema, MergeType
from trimtab.api.text_cache import cache_short_texts
from trimtab.api.value import Raw

FieldSet = dict[str, Any]
LEAF: FieldSet = {}
_MEMBER_MARK: FieldSet = {".": LEAF}
_CONTAINERS = frozenset((dict, list))
_MAX_SHARED_SETS, _MAX_SHARED_BYTES = 256, 4096
"""Decoded, a set takes about thirty times the bytes of its JSON."""


def is_member(node: FieldSet) -> bool:
    return not node or "." in node


def is_field_set(fields: Any) -> bool:
    """Whether a value sent by a client can be read as a set of fields."""
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


def sort_fields(fields: FieldSet) -> FieldSet:
    """The set in the order in which kube-apiserver writes it: by element, the mark of a member first.

    Every write does this. The JSON library takes an eighth of the time of a loop over the elements. Objects with the same
    fields share one set, which must not be changed.
    """
    try:
        text = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # nested too deeply, or no text: the object cannot be stored either
        return fields
    return _decode_sorted(text)


@cache_short_texts(_MAX_SHARED_SETS, longest=_MAX_SHARED_BYTES)
def _decode_sorted(text: bytes) -> FieldSet:
    fields: FieldSet = orjson.loads(text)
    return fields


def _union_nodes(one: FieldSet, other: FieldSet) -> FieldSet:
    if not one:
        return other if is_member(other) else {**_MEMBER_MARK, **other}
    if not other:
        return one if "." in one else {**_MEMBER_MARK, **one}
    return union(one, other)


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields in either set (at the root; below it an empty node is a member)."""
    if not one or not other:
        return one or other
    joined = dict(one)
    for element, node in other.items():
        joined[element] = _union_nodes(joined[element], node) if element in joined else node
    return joined


def _subtract_node(one: FieldSet, other: FieldSet) -> FieldSet | None:
    if not is_member(other) and one.keys().isdisjoint(other):
        return one
    rest = difference({k: v for k, v in one.items() if k != "."}, other) if one else {}
    if is_member(one) and not is_member(other):
        return {**_MEMBER_MARK, **rest} if rest else LEAF
    return rest or None


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields in `one` but not in `other`; the same object when they have nothing in common."""
    if not other or one.keys().isdisjoint(other):
        return one
    rest: FieldSet = {}
    same = True
    for element, node in one.items():
        remaining = node if element not in other else _subtract_node(node, other[element]) if element != "." else None
        same = same and remaining is node
        if remaining is not None:
            rest[element] = remaining
    return one if same else rest


def _intersect_nodes(one: FieldSet, other: FieldSet) -> FieldSet | None:
    shared = intersection(one, other)
    if is_member(one) and is_member(other):
        return {**_MEMBER_MARK, **shared} if shared else LEAF
    return shared or None


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields in both sets."""
    shared: FieldSet = {}
    for element, node in one.items():
        if element != "." and element in other and (found := _intersect_nodes(node, other[element])) is not None:
            shared[element] = found
    return shared


def format_paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Every member as text (`.spec.containers[name="c"].image`), shallow ones first."""
    inner = sorted(element for element in fields if element != ".")
    for element in inner:
        if is_member(fields[element]):
            yield prefix + _format_element(element)
    for element in inner:
        yield from format_paths(fields[element], prefix + _format_element(element))


def _format_element(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = orjson.loads(text)
        return "[" + ",".join(f"{key}={_canonical_json(keys[key])}" for key in sorted(keys)) + "]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


def _canonical_json(value: Any) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, sort_keys=True, separators=(",", ":"))


def item_element(item: Any, schema: MergeSchema) -> str | None:
    """The path element of a list item; None when it lacks a key."""
    if schema.merge_type is MergeType.SET:
        return f"v:{_canonical_json(item)}"
    if not isinstance(item, dict):
        return None
    keys: Raw = {}
    for key in schema.keys:
        value = item.get(key)
        if value is None:
            value = schema.key_defaults.get(key)
            if value is None:
                return None
        keys[key] = value
    return f"k:{_canonical_json(keys)}"


def items_by_element(items: Sequence[Any], schema: MergeSchema) -> dict[str, Any]:
    """List items by path element; items that lack their keys are left out."""
    found: dict[str, Any] = {}
    for item in items:
        element = item_element(item, schema)
        if element is not None:
            found[element] = item
    return found


def _is_granular(value: Any, schema: MergeSchema) -> bool:
    """Whether the members of this value are owned individually."""
    if not value:
        return False
    return schema.merges_maps if isinstance(value, dict) else isinstance(value, list) and schema.merges_lists


def all_fields(value: Any, schema: MergeSchema) -> FieldSet:
    """The set of a new value: the value and everything in it."""
    if not value:
        return LEAF
    if type(value) is dict and schema.merges_maps:
        members, rest = schema.fields, schema.additional or UNKNOWN_SCHEMA
        fields: FieldSet = {".": LEAF}
        for name, item in value.items():
            has_fields = item and type(item) in _CONTAINERS
            fields["f:" + name] = all_fields(item, members.get(name, rest)) if has_fields else LEAF
        return fields
    if type(value) is list and schema.merges_lists:
        inner = schema.item
        return {".": LEAF, **{key: all_fields(item, inner) for key, item in items_by_element(value, schema).items()}}
    return LEAF


def applied_fields(value: Any, schema: MergeSchema) -> FieldSet:
    """The set that an applied configuration claims: its leaves and its list items, not the structs around them."""
    if not _is_granular(value, schema):
        return LEAF
    fields: FieldSet = {}
    if isinstance(value, dict):
        for name, item in value.items():
            declared = schema.fields.get(name)
            inner = declared or schema.additional or UNKNOWN_SCHEMA
            node = applied_fields(item, inner)
            if node and declared is None and "." not in node:
                node = {**_MEMBER_MARK, **node}
            if node or not isinstance(item, list) or inner.merge_type not in (MergeType.KEYED, MergeType.SET):
                fields[f"f:{name}"] = node
    else:
        for element, item in items_by_element(value, schema).items():
            fields[element] = {**_MEMBER_MARK, **inside} if (inside := applied_fields(item, schema.item)) else LEAF
    return fields


class Comparison(Struct, frozen=True):
    """How one object differs from another, as sets of fields."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


_NO_CHANGE = Comparison({}, {}, {})
_LEAF_CHANGED = object()


def _members_by_element(value: Any, schema: MergeSchema) -> dict[str, tuple[Any, MergeSchema]]:
    if isinstance(value, dict):
        members = schema.fields
        return {
            f"f:{name}": (item, members.get(name) or schema.additional or UNKNOWN_SCHEMA)
            for name, item in value.items()
        }
    if isinstance(value, list):
        inner = schema.item
        return {element: (item, inner) for element, item in items_by_element(value, schema).items()}
    return {}


def _compare_values(old: Any, new: Any, schema: MergeSchema) -> Any:
    """Added, modified and removed fields inside, or `_LEAF_CHANGED`, or None when nothing differs."""
    if old == new:
        return None
    if type(old) is not dict or type(new) is not dict:
        return _compare_items(old, new, schema)
    if not schema.merges_maps:
        return _LEAF_CHANGED
    # two maps are by far the most common case, and need no table of their members
    members, rest = schema.fields, schema.additional or UNKNOWN_SCHEMA
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    for name, item in new.items():
        if name not in old:
            has_fields = item and type(item) in _CONTAINERS
            added["f:" + name] = all_fields(item, members.get(name, rest)) if has_fields else LEAF
        elif (before := old[name]) is not item:
            if type(item) not in _CONTAINERS and type(before) not in _CONTAINERS:
                if before != item:
                    modified["f:" + name] = LEAF
                continue
            found = _compare_values(before, item, members.get(name, rest))
            if found is _LEAF_CHANGED:
                modified["f:" + name] = LEAF
            elif found is not None:
                for target, part in zip((added, modified, removed), found, strict=True):
                    if part:
                        target["f:" + name] = LEAF if part == _MEMBER_MARK else part
    for name in old:
        if name not in new:
            removed["f:" + name] = all_fields(old[name], members.get(name, rest))
    return added, modified, removed


def _compare_items(old: Any, new: Any, schema: MergeSchema) -> Any:
    """`_compare_values` for two different values that are not both maps."""
    if old is None and _is_granular(new, schema):
        return {element: node for element, node in all_fields(new, schema).items() if element != "."}, {}, {}
    if not (_is_granular(old, schema) or _is_granular(new, schema)):
        return _LEAF_CHANGED
    before, after = _members_by_element(old, schema), _members_by_element(new, schema)
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    for element, (item, inner) in after.items():
        if element not in before:
            added[element] = all_fields(item, inner)
            continue
        found = _compare_values(before[element][0], item, inner)
        if found is _LEAF_CHANGED:
            modified[element] = LEAF
        elif found is not None:
            for target, part in zip((added, modified, removed), found, strict=True):
                if part:
                    target[element] = LEAF if part == _MEMBER_MARK else part
    for element, (item, inner) in before.items():
        if element not in after:
            removed[element] = all_fields(item, inner)
    if schema.merge_type is MergeType.ANY and None not in (old, new) and isinstance(old, dict) != isinstance(new, dict):
        modified["."] = LEAF  # the type of the value changed
    return added, modified, removed


def compare(old: Raw, new: Raw, schema: MergeSchema) -> Comparison:
    """The fields that changed between two whole objects."""
    found = _compare_values(old, new, schema)
    return Comparison(*found) if isinstance(found, tuple) else _NO_CHANGE
