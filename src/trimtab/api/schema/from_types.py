"""OpenAPI v3 structural schemas and CRDs, generated from the Python types."""

import types
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from trimtab.api.kind import Column, Kind
from trimtab.api.schema.cel_rules import with_extra_validation
from trimtab.api.value import Field, IntOrString, Meta, Object, QuantityText, Raw

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_INT_OR_STRING: Raw = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_ANY: Raw = {"x-kubernetes-preserve-unknown-fields": True}
_OBJECT_FIELDS: Mapping[str, Raw] = {
    "apiVersion": {
        "type": "string",
        "description": "The group and version of the API that this object is written for.",
    },
    "kind": {"type": "string", "description": "The kind of this object, in CamelCase."},
    "metadata": {"type": "object"},
}
_EMPTY_FIELD = Field()


def _merge_fields(fields: tuple[Any, ...]) -> Field:
    """One description out of several; the one closest to the use takes precedence."""
    merged = _EMPTY_FIELD
    for field in fields:
        if isinstance(field, Field):
            changed = {k: v for k, v in field._asdict().items() if v != _EMPTY_FIELD._asdict()[k]}
            merged = merged._replace(**changed)
    return merged


def _bare_schema(hint: Any) -> Raw:
    """The schema of a type without the additions of its `Field`."""
    if hint is Any:
        return dict(_ANY)
    if hint == QuantityText:
        return {**_INT_OR_STRING, "pattern": QUANTITY_PATTERN}
    if hint == IntOrString:
        return dict(_INT_OR_STRING)
    if hint is datetime:
        return {"type": "string", "format": "date-time"}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct_schema(hint)
    scalars: dict[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}
    if hint in scalars:
        return {"type": scalars[hint]}
    return _container_schema(hint)


def _container_schema(hint: Any) -> Raw:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (tuple, list):
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is dict:
        if arguments[1] is Any:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if hint is dict:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    raise TypeError(f"no schema for {hint!r}")


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        rest = tuple(a for a in get_args(hint) if a is not type(None))
        return rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007 - built from a tuple
    return hint


def _unwrap(hint: Any) -> tuple[Any, Field]:
    """The bare type and the merged `Field` of its annotations, through `Annotated[X | None, ...]` at any depth."""
    metadata: tuple[Any, ...] = ()
    while True:
        if get_origin(hint) is Annotated:
            hint, metadata = get_args(hint)[0], (*hint.__metadata__, *metadata)
            continue
        bare = _without_none(hint)
        if bare is hint or bare == hint:
            return hint, _merge_fields(metadata)
        hint = bare


def schema_of(hint: Any) -> Raw:
    """The structural schema of any type that is used in `api.kinds`."""
    bare, field = _unwrap(hint)
    schema = _bare_schema(bare)
    if field.unconstrained:
        schema = _without_constraints(schema)
    for key, value in (
        ("description", field.text),
        ("enum", list(field.enum)),
        ("pattern", field.pattern),
        ("format", field.format),
        ("x-kubernetes-list-type", field.list_type),
        ("x-kubernetes-list-map-keys", list(field.map_keys)),
        ("x-kubernetes-preserve-unknown-fields", field.preserve_unknown),
        ("x-kubernetes-embedded-resource", field.embedded),
        ("nullable", field.nullable),
        ("x-kubernetes-validations", [{"rule": rule, "message": message} for rule, message in field.rules]),
    ):
        if value:
            schema[key] = value
    for key, number in (
        ("default", field.default),
        ("minimum", field.minimum),
        ("maximum", field.maximum),
        ("minLength", field.min_length),
        ("maxLength", field.max_length),
        ("minItems", field.min_items),
        ("maxItems", field.max_items),
    ):
        if number is not None:
            schema[key] = number
    return schema


_CONSTRAINTS = frozenset(("required", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength"))


def _without_constraints(schema: Raw) -> Raw:
    kept = {key: value for key, value in schema.items() if key not in _CONSTRAINTS}
    if "properties" in kept:
        kept["properties"] = {name: _without_constraints(one) for name, one in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = _without_constraints(kept["items"])
    return kept


def _struct_schema(type_: type[msgspec.Struct]) -> Raw:
    hints = get_type_hints(type_, include_extras=True)
    properties: Raw = {}
    required: list[str] = []
    for field in msgspec.structs.fields(type_):
        hint = hints[field.name]
        if hint is Meta:
            continue
        properties[field.encode_name] = schema_of(hint)
        if _unwrap(hint)[1].required:
            required.append(field.encode_name)
    schema: Raw = {"type": "object", "properties": properties}
    if required:
        schema["required"] = sorted(required)
    return schema


@cache
def object_schema(type_: type[Object], text: str = "") -> Raw:
    """The schema of a whole object; shared between callers, so do not modify it."""
    schema = _struct_schema(type_)
    schema["properties"] = {**_OBJECT_FIELDS, **schema["properties"]}
    return {"description": text, **schema} if text else schema


def schema_for(kind: Kind, version: str = "") -> Raw:
    """The schema of a kind in one of its served versions (by default the stored one)."""
    return object_schema(kind.type_in(version or kind.version), kind.text)


def _printer_column(column: Column) -> Raw:
    body: Raw = {"name": column.name, "type": column.type, "jsonPath": column.path}
    for key, value in (("format", column.format), ("priority", column.priority), ("description", column.text)):
        if value:
            body[key] = value
    return body


def _crd_version(kind: Kind, name: str, *, served: bool, progress_columns: bool) -> Raw:
    version: Raw = {"name": name, "served": served, "storage": name == kind.version}
    columns = kind.columns_in(progress=progress_columns)
    if name == kind.version and columns:
        version["additionalPrinterColumns"] = [_printer_column(c) for c in columns]
    subresources: Raw = {}
    if kind.status:
        subresources["status"] = {}
    if kind.scale:
        subresources["scale"] = {
            "specReplicasPath": kind.scale.spec_path,
            "statusReplicasPath": kind.scale.status_path,
            **({"labelSelectorPath": kind.scale.selector_path} if kind.scale.selector_path else {}),
        }
    if subresources:
        version["subresources"] = subresources
    schema = schema_for(kind, name)
    version["schema"] = {"openAPIV3Schema": with_extra_validation(kind.id, schema) if name == kind.version else schema}
    return version


def crd(kind: Kind, webhook: Raw | None = None, *, progress_columns: bool = False) -> Raw:
    """The CustomResourceDefinition of a kind; with `progress_columns` it has the columns of the profile `trimtab`.

    Versions that differ in structure are served only when `webhook`, a webhook client configuration, can convert them:
    without it a kube-apiserver would only change the apiVersion and drop the fields that the stored version lacks.
    """
    names: Raw = {"kind": kind.name, "listKind": f"{kind.name}List", "plural": kind.plural, "singular": kind.singular}
    if kind.short:
        names["shortNames"] = list(kind.short)
    if kind.categories:
        names["categories"] = list(kind.categories)
    spec: Raw = {"group": kind.group, "names": names, "scope": "Namespaced" if kind.namespaced else "Cluster"}
    if kind.other_versions and webhook is not None:
        spec["conversion"] = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": webhook, "conversionReviewVersions": ["v1"]},
        }
    older = [
        _crd_version(kind, name, served=other.compatible or webhook is not None, progress_columns=progress_columns)
        for name, other in kind.other_versions.items()
    ]
    spec["versions"] = [*older, _crd_version(kind, kind.version, served=True, progress_columns=progress_columns)]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.id},
        "spec": spec,
    }
