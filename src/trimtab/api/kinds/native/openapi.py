"""OpenAPI v3 schemas of the native kinds as kube-apiserver publishes them, generated from the field table."""

from functools import cache
from typing import Any

from trimtab.api.kinds.native import merge_keys
from trimtab.api.kinds.native.fields import NativeField, has_message, message, message_name
from trimtab.api.value import Raw

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SPECIAL_NAMES = {
    "Quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "IntOrString": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "RawExtension": "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "Time": _META + "Time",
    "MicroTime": _META + "MicroTime",
    "FieldsV1": _META + "FieldsV1",
    "JSON": _EXTENSIONS + "JSON",
    "JSONSchemaPropsOrArray": _EXTENSIONS + "JSONSchemaPropsOrArray",
    "JSONSchemaPropsOrBool": _EXTENSIONS + "JSONSchemaPropsOrBool",
    "JSONSchemaPropsOrStringArray": _EXTENSIONS + "JSONSchemaPropsOrStringArray",
}
_SPECIAL_SCHEMAS: dict[str, Raw] = {
    "Quantity": {"description": "An amount such as 500m or 1Gi.", "oneOf": [{"type": "string"}, {"type": "number"}]},
    "IntOrString": {
        "description": "A number, or a text such as a percentage or a name.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    "RawExtension": {"description": "Any object.", "type": "object"},
    "Time": {"description": "A time, to the second.", "type": "string", "format": "date-time"},
    "MicroTime": {"description": "A time, to the microsecond.", "type": "string", "format": "date-time"},
    "FieldsV1": {"description": "A set of fields.", "type": "object"},
    "JSON": {"description": "Any value."},
    "JSONSchemaPropsOrArray": {"description": "A schema, or a list of schemas."},
    "JSONSchemaPropsOrBool": {"description": "A schema, or a yes or no."},
    "JSONSchemaPropsOrStringArray": {"description": "A schema, or a list of names."},
}
_SCALARS: dict[str, Raw] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "ExtraValue": {"type": "array", "items": {"type": "string"}},
}
_ZEROS: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0}
_SPECIAL_BY_COMPONENT = {component: special for special, component in _SPECIAL_NAMES.items()}
_GROUPS = {
    "core": "",
    "apps": "apps",
    "batch": "batch",
    "autoscaling": "autoscaling",
    "policy": "policy",
    "networking": "networking.k8s.io",
    "scheduling": "scheduling.k8s.io",
    "coordination": "coordination.k8s.io",
    "rbac": "rbac.authorization.k8s.io",
    "events": "events.k8s.io",
    "discovery": "discovery.k8s.io",
    "flowcontrol": "flowcontrol.apiserver.k8s.io",
    "storage": "storage.k8s.io",
    "node": "node.k8s.io",
    "admissionregistration": "admissionregistration.k8s.io",
    "apiextensions": "apiextensions.k8s.io",
    "apiregistration": "apiregistration.k8s.io",
    "certificates": "certificates.k8s.io",
    "authentication": "authentication.k8s.io",
    "authorization": "authorization.k8s.io",
    "metrics": "metrics.k8s.io",
}


def component_name(type_: str) -> str:
    """The name of a message's schema: `io.k8s.api.apps.v1.Deployment`."""
    if special := _SPECIAL_NAMES.get(type_):
        return special
    package, _, rest = type_.partition(".")
    if package == "meta":
        return _META + rest.partition(".")[2]
    if package == "apiextensions":
        return _EXTENSIONS + rest.partition(".")[2]
    return f"io.k8s.api.{type_}"


def _message_name_of(component: str) -> str:
    if component.startswith(_META):
        return "meta.v1." + component[len(_META) :]
    if component.startswith(_EXTENSIONS):
        return "apiextensions.v1." + component[len(_EXTENSIONS) :]
    return component.removeprefix("io.k8s.api.")


def reference(type_: str) -> Raw:
    return {"$ref": f"#/components/schemas/{component_name(type_)}"}


def _item_schema(type_: str) -> Raw:
    """The schema of an item of a list or map."""
    return dict(_SCALARS[type_]) if type_ in _SCALARS else reference(type_)


def _value_schema(type_: str, *, with_default: bool) -> Raw:
    """The schema of a field's value; with `with_default`, it has the default of its type."""
    if scalar := _SCALARS.get(type_):
        return {**scalar, "default": _ZEROS[type_]} if with_default and type_ in _ZEROS else dict(scalar)
    if with_default and "." in type_:
        return {"allOf": [reference(type_)], "default": {}}
    return {"allOf": [reference(type_)]}


def _property_schema(owner: str, field: NativeField) -> Raw:
    path = f"{owner}.{field.name}"
    merge = merge_keys.merge_rules().get(owner, {}).get(field.name, merge_keys.MergeRule())
    schema: Raw
    if field.shape == "list":
        schema = {"type": "array", "items": _item_schema(field.type)}
        if merge.list_keys:
            schema |= {"x-kubernetes-list-map-keys": list(merge.list_keys), "x-kubernetes-list-type": "map"}
        else:
            schema["x-kubernetes-list-type"] = "set" if merge.is_set else "atomic"
    elif field.shape == "map":
        schema = {"type": "object", "additionalProperties": _item_schema(field.type)}
        if path in merge_keys.ATOMIC_MAPS:
            schema["x-kubernetes-map-type"] = "atomic"
    else:
        schema = _value_schema(field.type, with_default=field.always_written and not field.null_when_absent)
    if path in merge_keys.GRANULAR_FIELDS:
        schema["x-kubernetes-map-type"] = "granular"
    if merge.patch_key:
        schema["x-kubernetes-patch-merge-key"] = merge.patch_key
    if merge.strategy:
        schema["x-kubernetes-patch-strategy"] = merge.strategy
    if values := merge_keys.enum_values().get(path):
        (schema["items"] if field.shape == "list" else schema)["enum"] = list(values)
    if path in merge_keys.DEFAULTS:
        schema["default"] = merge_keys.DEFAULTS[path]
    if text := merge_keys.FIELD_DESCRIPTIONS.get(field.name):
        schema["description"] = text
    return schema


def _declaring_messages(name: str) -> dict[str, str]:
    """The message that declares each JSON field (inline messages declare their own)."""
    found: dict[str, str] = {}
    for field in message(name).declared_fields:
        if field.shape == "inline":
            found.update(_declaring_messages(field.type))
        else:
            found[field.name] = name
    return found


def _group_version_kind(name: str) -> Raw:
    package, version, kind = name.split(".")
    properties = message(name).json_fields
    if package == "meta" or "metadata" not in properties or kind not in merge_keys.KIND_DESCRIPTIONS:
        return {}
    return {"x-kubernetes-group-version-kind": [{"group": _GROUPS[package], "version": version, "kind": kind}]}


@cache
def component(name: str) -> Raw:
    """The schema called `name` (`io.k8s.api.core.v1.Pod`); KeyError when there is none. Shared: do not modify it."""
    if special := _SPECIAL_BY_COMPONENT.get(name):
        return _SPECIAL_SCHEMAS[special]
    type_ = _message_name_of(name)
    if type_.endswith("List") and not has_message(type_):
        return _list_schema(type_)
    return _object_schema(type_)


def _object_schema(type_: str) -> Raw:
    definition = message(type_)
    owners = _declaring_messages(type_)
    fields = {field.name: _property_schema(owners[field.name], field) for field in definition.json_fields.values()}
    schema: Raw = {"type": "object"} | ({"properties": fields} if fields else {})
    kind_part = _group_version_kind(type_)
    if kind_part or type_ in ("meta.v1.DeleteOptions", "meta.v1.Status"):
        schema["properties"] = _type_meta() | fields
    if text := merge_keys.KIND_DESCRIPTIONS.get(definition.short_name) if kind_part else None:
        schema = {"description": text, **schema}
    if required := sorted(field.name for field in definition.json_fields.values() if field.required):
        schema["required"] = required
    if type_ in merge_keys.ATOMIC_MESSAGES:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema | kind_part


def _type_meta() -> Raw:
    return {
        "apiVersion": {"description": merge_keys.FIELD_DESCRIPTIONS["apiVersion"], "type": "string"},
        "kind": {"description": merge_keys.FIELD_DESCRIPTIONS["kind"], "type": "string"},
    }


def _list_schema(type_: str) -> Raw:
    item = type_.removesuffix("List")
    package, version, kind = type_.split(".")
    message(item)  # raises KeyError when the item is unknown
    return {
        "description": f"A list of {kind.removesuffix('List')} objects.",
        "type": "object",
        "required": ["items"],
        "properties": _type_meta()
        | {
            "metadata": _value_schema("meta.v1.ListMeta", with_default=True),
            "items": {"type": "array", "items": _item_schema(item)},
        },
        "x-kubernetes-group-version-kind": [{"group": _GROUPS[package], "version": version, "kind": kind}],
    }


def schema_name(api_version: str, kind: str) -> str:
    """The component that describes this native kind."""
    return component_name(message_name(api_version, kind))


def _references(node: Any) -> set[str]:
    if isinstance(node, dict):
        here = {node["$ref"].rpartition("/")[2]} if isinstance(node.get("$ref"), str) else set()
        return here.union(*map(_references, node.values()))
    if isinstance(node, list):
        return set().union(*map(_references, node))
    return set()


def components(names: list[str]) -> dict[str, Raw]:
    """These schemas and all schemas that they refer to, sorted by name."""
    found: dict[str, Raw] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = component(name)
            pending.extend(_references(found[name]))
    return dict(sorted(found.items()))
