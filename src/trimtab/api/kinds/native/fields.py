"""The field table of the native kinds: type, protobuf number, and how Kubernetes writes each field when it is empty.

`fields.json` holds one line per message: field -> [protobuf number, type, flags, Go type of a value, Go type of the
whole field]; the Go types are listed where they have their own names, which decoding errors contain. Flags: `r` list,
`m` map with string keys, `i` embedded inline in JSON, `q` required by the schema, `a` written even when empty,
`z` omitted when zero, `n` written as null (not `{}`) when absent. A field with neither `a` nor `z` is omitted only when
it is absent.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

SCALARS = frozenset({"string", "int32", "int64", "bool", "bytes", "double"})
SPECIAL = frozenset(
    {
        "Quantity",
        "Time",
        "MicroTime",
        "IntOrString",
        "RawExtension",
        "FieldsV1",
        "JSON",
        "ExtraValue",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
    }
)
"""Types with their own JSON form."""


class NativeField(NamedTuple):
    name: str
    number: int
    type: str
    shape: str
    """`one`, `list`, `map` or `inline`."""
    required: bool
    always_written: bool
    omit_zero: bool
    null_when_absent: bool
    go_type: str = ""
    go_field_type: str = ""

    @property
    def is_message(self) -> bool:
        return self.type not in SCALARS and self.type not in SPECIAL


class Message(NamedTuple):
    """A message with the fields it declares, and all its fields in JSON (inline ones flattened)."""

    name: str
    declared_fields: tuple[NativeField, ...]
    json_fields: dict[str, NativeField]

    @property
    def short_name(self) -> str:
        return self.name.rsplit(".", 1)[1]


_SHAPES = {"r": "list", "m": "map", "i": "inline"}


def _parse_field(
    name: str, number: int, type_: str, flags: str = "", go_type: str = "", go_field_type: str = ""
) -> NativeField:
    shape = next((_SHAPES[flag] for flag in flags if flag in _SHAPES), "one")
    return NativeField(
        name, number, type_, shape, "q" in flags, "a" in flags, "z" in flags, "n" in flags, go_type, go_field_type
    )


@cache
def _load_table() -> dict[str, dict[str, list[Any]]]:
    text = files("trimtab.api.kinds.native").joinpath("fields.json").read_bytes()
    table: dict[str, dict[str, list[Any]]] = json.loads(text)
    return table


@cache
def message(name: str) -> Message:
    """The message called `name`, such as `core.v1.PodSpec`; KeyError when there is none."""
    own = tuple(_parse_field(field, *facts) for field, facts in _load_table()[name].items())
    flat: dict[str, NativeField] = {}
    for field in own:
        if field.shape == "inline":
            flat.update(message(field.type).json_fields)
        else:
            flat[field.name] = field
    return Message(name, own, flat)


def has_message(name: str) -> bool:
    return name in _load_table()


_PACKAGES_BY_GROUP = {"rbac.authorization.k8s.io": "rbac"}


@cache
def message_name(api_version: str, kind: str) -> str:
    """The name of the message of this kind; there may be no such message (see `has_message`)."""
    if kind in ("DeleteOptions", "Status"):  # every group has these
        return f"meta.v1.{kind}"
    if kind == "Eviction":  # older clients still send v1beta1
        return "policy.v1.Eviction"
    group, _, version = api_version.rpartition("/")
    if not group:
        return f"core.{version}.{kind}"
    return f"{_PACKAGES_BY_GROUP.get(group, group.split('.')[0])}.{version}.{kind}"
