"""Helpers that decode, default and validate raw objects by the schema of their kind."""

from typing import TypeVar

from trimtab.api.kind import kind_of
from trimtab.api.schema.from_types import schema_for
from trimtab.api.schema.structural import StructuralSchema
from trimtab.api.value import Object, Raw

T = TypeVar("T", bound=Object)


def decode(type_: type[T], raw: Raw) -> T:
    decoded = kind_of(type_).decode(raw)
    assert isinstance(decoded, type_)
    return decoded


def reencode(type_: type[Object], raw: Raw) -> Raw:
    """The wire form after decoding; fields that the type does not declare are lost."""
    return kind_of(type_).encode(decode(type_, raw))


def with_schema_defaults(type_: type[Object], raw: Raw) -> Raw:
    return StructuralSchema(schema_for(kind_of(type_))).apply_defaults(raw)


def schema_error_fields(type_: type[Object], raw: Raw) -> list[str]:
    """The fields that the schema rejects."""
    kind = kind_of(type_)
    head = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "a"}}
    return [cause.field for cause in StructuralSchema(schema_for(kind)).check({**head, **raw})]
