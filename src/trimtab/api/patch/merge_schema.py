"""The part of a schema that patches and field ownership need: how the parts of an object merge."""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, cached_property
from typing import Any

from trimtab.api.kinds.native import codec, openapi
from trimtab.api.kinds.native.fields import message_name
from trimtab.api.value import Raw

Resolve = Callable[[str], Raw]
"""From the name of a component to its schema."""


class Form(Enum):
    SCALAR = "scalar"
    ATOMIC = "atomic"
    """A map or list that is owned and replaced as a whole."""
    MAP = "map"
    """A struct or a map, merged member by member."""
    KEYED = "keyed"
    """A list whose items are identified by their keys."""
    SET = "set"
    """A list of distinct scalars."""
    ANY = "any"
    """Undeclared contents: maps merge member by member, lists are atomic."""


class Shape:
    """The merge rules of one node of a schema. Children are built on demand, because schemas may contain themselves."""

    def __init__(self, schema: Raw, resolve: Resolve, *, root: bool = False, blank: Raw | None = None) -> None:
        self.schema = _flatten(schema, resolve)
        self._resolve = resolve
        self._root = root
        self.blank: Raw = blank or {}
        """The object before the first write: native kinds have fields that are always present."""
        self.form = _form(self.schema)
        self.maps_merge = self.form in (Form.MAP, Form.ANY)
        self.lists_merge = self.form in (Form.KEYED, Form.SET)
        self.keys: tuple[str, ...] = tuple(self.schema.get("x-kubernetes-list-map-keys", ()))
        self.patch_key: str = self.schema.get("x-kubernetes-patch-merge-key", "")
        self.patch_strategy: frozenset[str] = frozenset(self.schema.get("x-kubernetes-patch-strategy", "").split(","))
        self.type: str = self.schema.get("type", "")

    @cached_property
    def fields(self) -> Mapping[str, "Shape"]:
        """The declared members of a struct."""
        declared = {name: Shape(schema, self._resolve) for name, schema in self.schema.get("properties", {}).items()}
        if self._root or self.schema.get("x-kubernetes-embedded-resource"):
            declared |= _object_fields()
        return declared

    @cached_property
    def rest(self) -> "Shape | None":
        """The schema of members that are not declared; None when none are allowed."""
        if self.form is Form.ANY:
            return self
        extra = self.schema.get("additionalProperties")
        if isinstance(extra, dict):
            return Shape(extra, self._resolve)
        if extra is True or self.schema.get("x-kubernetes-preserve-unknown-fields"):
            return ANYTHING
        return None

    @cached_property
    def item(self) -> "Shape":
        return Shape(self.schema.get("items", {}), self._resolve)

    @cached_property
    def key_defaults(self) -> Mapping[str, Any]:
        """Key values of items that omit them."""
        found = {}
        for key in self.keys:
            schema = self.item.fields[key].schema if key in self.item.fields else {}
            if schema.get("default") not in (None, "", 0):
                found[key] = schema["default"]
        return found

    def member(self, name: str) -> "Shape | None":
        return self.fields.get(name) or self.rest


def _flatten(schema: Raw, resolve: Resolve) -> Raw:
    """The schema with its references resolved; what stands beside a reference takes precedence."""
    while "$ref" in schema or len(schema.get("allOf", ())) == 1:
        if "$ref" in schema:
            target, beside = (
                resolve(schema["$ref"].rpartition("/")[2]),
                {k: v for k, v in schema.items() if k != "$ref"},
            )
        elif "$ref" in schema["allOf"][0]:
            target, beside = schema["allOf"][0], {k: v for k, v in schema.items() if k != "allOf"}
        else:
            break
        schema = {**target, **beside}
    return schema


def _form(schema: Raw) -> Form:
    type_ = schema.get("type")
    if type_ == "array":
        return {"map": Form.KEYED, "set": Form.SET}.get(schema.get("x-kubernetes-list-type", ""), Form.ATOMIC)
    if type_ == "object" or "properties" in schema or "additionalProperties" in schema:
        if schema.get("x-kubernetes-map-type") == "atomic":
            return Form.ATOMIC
        bare = "properties" not in schema and "additionalProperties" not in schema
        if bare and not schema.get("x-kubernetes-embedded-resource"):
            return Form.ANY
        return Form.MAP
    if type_ or "oneOf" in schema or "x-kubernetes-int-or-string" in schema or "anyOf" in schema:
        return Form.SCALAR
    return Form.ANY


def _unknown(name: str) -> Raw:
    raise KeyError(name)


ANYTHING = Shape({}, _unknown)


@cache
def _object_fields() -> dict[str, Shape]:
    """The fields that every whole object has, whatever its schema declares."""
    string = Shape({"type": "string"}, _unknown)
    metadata = Shape(openapi.reference("meta.v1.ObjectMeta"), openapi.component)
    return {"apiVersion": string, "kind": string, "metadata": metadata}


def shape_of(schema: Raw, components: Mapping[str, Raw] | None = None, *, blank: Raw | None = None) -> Shape:
    """The merge schema of whole objects (of a CRD, or any OpenAPI schema). Building it is expensive: keep it."""
    known = components or {}

    def resolve(name: str) -> Raw:
        return known[name] if name in known else openapi.component(name)

    return Shape(schema, resolve, root=True, blank=blank)


@cache
def native_shape(api_version: str, kind: str) -> Shape:
    """The merge schema of a native kind; built once."""
    blank = codec.empty(message_name(api_version, kind))
    return shape_of(openapi.component(openapi.schema_name(api_version, kind)), blank=blank)
