"""Decodes a value that was derived from one already decoded: large parts that both have in common are not decoded again.

Objects are never changed after they are built, so an object and the one that a write made of it share the parts that the
write left alone: they are the same Python objects, and so their typed values are the same. A binding of a policy with a
weight for each of 1,000 clusters takes 0.8 ms to decode, and 0.01 ms when only its status is new. What two typed values share
is also compared quickly.
"""

from functools import cache
from typing import NamedTuple

import msgspec
from msgspec.structs import fields as fields_of

from trimtab.api.value import Raw, Value

_WHOLE_MEMBERS = frozenset({"metadata"})
"""Members that change with every write and are small: they are decoded as a whole."""


class _StructFields(NamedTuple):
    names: dict[str, str]
    """The attribute of each name on the wire."""
    is_partial: bool
    """Whether every field may be omitted."""


@cache
def _fields(type_: type[Value]) -> _StructFields:
    fields = fields_of(type_)
    return _StructFields(
        {field.encode_name: field.name for field in fields}, not any(field.required for field in fields)
    )


def is_derived(raw: Raw, before: Raw) -> bool:
    """Whether one object was made of the other in this process, and not decoded anew."""
    uid = raw["metadata"].get("uid")
    return uid is not None and uid is before["metadata"].get("uid")


def decode_changed(type_: type[Value], raw: Raw, before: Raw, decoded: Value) -> Value:
    """`raw` as a `type_`, where `decoded` is the value of `before`, of the same type."""
    names, is_partial = _fields(type_)
    if not is_partial:
        return msgspec.convert(raw, type=type_, strict=False)
    changed: Raw = {}
    changes: dict[str, Value] = {}
    for key, value in raw.items():
        earlier = before.get(key)
        if key not in names or (value is earlier and value is not None):
            continue
        if type(value) is dict and type(earlier) is dict and key not in _WHOLE_MEMBERS and _has_shared(value, earlier):
            inner = getattr(decoded, names[key])
            if isinstance(inner, Value):
                changes[names[key]] = decode_changed(type(inner), value, earlier, inner)
                continue
        changed[key] = value
    removed = [key for key in before if key in names and key not in raw]  # get their defaults
    part = msgspec.convert(changed, type=type_, strict=False)
    new = {names[key]: getattr(part, names[key]) for key in (*changed, *removed)}
    return msgspec.structs.replace(decoded, **new, **changes)


def _has_shared(value: Raw, earlier: Raw) -> bool:
    """Whether the values have a container in common."""
    return any(type(item) in (dict, list) and item is earlier.get(key) for key, item in value.items())
