"""The part of a schema that patches and field ownership need: how the parts of an object merge."""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, cached_property
from typing import Any

from trimtab.api.kinds.native import codec, openapi
from trimtab.api.kinds.native.fields import message_name
from trimtab.api.value import Raw

ResolveReference = Callable[[str], Raw]
"""From the name of a component to its schema."""


class MergeType(Enum):
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


class MergeSchema:
    """The merge rules of one node of a schema. Children are built on demand, because schemas may contain themselves."""

    def __init__(
        self, schema: Raw, resolve: ResolveReference, *, root: bool = False, empty_object: Raw | None = None
    ) -> None:
        self.schema = _resolve_references(schema, resolve)
        self._resolve = resolve
        self._root = root
        self.empty_object: Raw = empty_object or {}
        """The object before the first write: native kinds have fields that are always present."""
        self.merge_type = _merge_type_of(self.schema)
        self.merges_maps = self.merge_type in (MergeType.MAP, MergeType.ANY)
        self.merges_lists = self.merge_type in (MergeType.KEYED, MergeType.SET)
        self.keys: tuple[str, ...] = tuple(self.schema.get("x-kubernetes-list-map-keys", ()))
        self.patch_key: str = self.schema.get("x-kubernetes-patch-merge-key", "")
        self.patch_strategy: frozenset[str] = frozenset(self.schema.get("x-kubernetes-patch-strategy", "").split(","))
        self.type: str = self.schema.get("type", "")

    @cached_property
    def fields(self) -> Mapping[str, "MergeSchema"]:
        """The declared members of a struct."""
        declared = {
            name: MergeSchema(schema, self._resolve) for name, schema in self.schema.get("properties", {}).items()
        }
        if self._root or self.schema.get("x-kubernetes-embedded-resource"):
            declared |= _object_fields()
        return declared

    @cached_property
    def additional(self) -> "MergeSchema | None":
        """The schema of members that are not declared; None when none are allowed."""
        if self.merge_type is MergeType.ANY:
            return self
        extra = self.schema.get("additionalProperties")
        if isinstance(extra, dict):
            return MergeSchema(extra, self._resolve)
        if extra is True or self.schema.get("x-kubernetes-preserve-unknown-fields"):
            return UNKNOWN_SCHEMA
        return None

    @cached_property
    def item(self) -> "MergeSchema":
        return MergeSchema(self.schema.get("items", {}), self._resolve)

    @cached_property
    def key_defaults(self) -> Mapping[str, Any]:
        """Key values of items that omit them."""
        found = {}
        for key in self.keys:
            schema = self.item.fields[key].schema if key in self.item.fields else {}
            if schema.get("default") not in (None, "", 0):
                found[key] = schema["default"]
        return found

    def member(self, name: str) -> "MergeSchema | None":
        return self.fields.get(name) or self.additional


def _resolve_references(schema: Raw, resolve: ResolveReference) -> Raw:
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


def _merge_type_of(schema: Raw) -> MergeType:
    type_ = schema.get("type")
    if type_ == "array":
        return {"map": MergeType.KEYED, "set": MergeType.SET}.get(
            schema.get("x-kubernetes-list-type", ""), MergeType.ATOMIC
        )
    if type_ == "object" or "properties" in schema or "additionalProperties" in schema:
        if schema.get("x-kubernetes-map-type") == "atomic":
            return MergeType.ATOMIC
        bare = "properties" not in schema and "additionalProperties" not in schema
        if bare and not schema.get("x-kubernetes-embedded-resource"):
            return MergeType.ANY
        return MergeType.MAP
    if type_ or "oneOf" in schema or "x-kubernetes-int-or-string" in schema or "anyOf" in schema:
        return MergeType.SCALAR
    return MergeType.ANY


def _no_components(name: str) -> Raw:
    raise KeyError(name)


UNKNOWN_SCHEMA = MergeSchema({}, _no_components)


@cache
def _object_fields() -> dict[str, MergeSchema]:
    """The fields that every whole object has, whatever its schema declares."""
    string = MergeSchema({"type": "string"}, _no_components)
    metadata = MergeSchema(openapi.reference("meta.v1.ObjectMeta"), openapi.component)
    return {"apiVersion": string, "kind": string, "metadata": metadata}


def merge_schema_of(
    schema: Raw, components: Mapping[str, Raw] | None = None, *, empty_object: Raw | None = None
) -> MergeSchema:
    """The merge schema of whole objects (of a CRD, or any OpenAPI schema). Building it is expensive: keep it."""
    known = components or {}

    def resolve(name: str) -> Raw:
        return known[name] if name in known else openapi.component(name)

    return MergeSchema(schema, resolve, root=True, empty_object=empty_object)


@cache
def native_merge_schema(api_version: str, kind: str) -> MergeSchema:
    """The merge schema of a native kind; built once."""
    blank = codec.empty_message(message_name(api_version, kind))
    return merge_schema_of(openapi.component(openapi.schema_name(api_version, kind)), empty_object=blank)
