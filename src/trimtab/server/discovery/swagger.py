"""Converts OpenAPI v3 paths and schemas to version 2, as kube-apiserver publishes them for older clients.

Version 2 has no `nullable`, `oneOf`, `anyOf` and `not`. Clients such as kubectl refuse unknown fields of an object that lists
properties, so a schema that preserves unknown fields lists none.
"""

from typing import Any

from trimtab.api.value import Raw
from trimtab.server.discovery.openapi_paths import REF

DEFINITIONS = "#/definitions/"
SHARED_PARAMETERS: dict[str, Raw] = {
    "pretty": {"name": "pretty", "in": "query", "type": "string", "uniqueItems": True},
}
"""Parameters of every path; the document has them once."""
PRESERVES = "x-kubernetes-preserve-unknown-fields"
_OMITTED = frozenset({"allOf", "anyOf", "default", "not", "nullable", "oneOf"})


def convert_definition(schema: Raw) -> Raw:
    """The definition of a kind: without properties where it preserves unknown fields."""
    if not schema.get(PRESERVES):
        return convert_schema(schema)
    kept = {key: value for key, value in schema.items() if key == "x-kubernetes-group-version-kind"}
    return {"type": "object", **kept}


def convert_schema(schema: Raw) -> Raw:
    alternatives = schema.get("allOf")
    if alternatives and "$ref" in alternatives[0]:
        schema = {**schema, **alternatives[0]}
    converted = {key: _convert_part(key, value) for key, value in schema.items() if key not in _OMITTED}
    if "oneOf" in schema and "type" not in schema:  # a number or a text
        converted["type"] = "string"
    _drop_what_clients_refuse(schema, converted)
    return converted


def _convert_part(key: str, value: Any) -> Any:
    if key == "$ref":
        return value.replace(REF, DEFINITIONS)
    if key == "properties":
        return {name: convert_schema(one) for name, one in value.items()}
    if key in ("items", "additionalProperties") and isinstance(value, dict):
        return convert_schema(value)
    return value


def _drop_what_clients_refuse(schema: Raw, converted: Raw) -> None:
    if schema.get("nullable"):
        _drop(converted, "type", "items", "properties")
    if schema.get(PRESERVES):
        _drop(converted, "items", "properties")
        if converted.get("type") == "object":
            del converted["type"]
    if converted.get("type") == "array" and "items" not in converted:
        del converted["type"]
    if "required" in converted:
        properties = schema.get("properties") or {}
        required = [name for name in converted["required"] if not (properties.get(name) or {}).get("nullable")]
        converted["required"] = required
        if not required:
            del converted["required"]


def _drop(target: Raw, *keys: str) -> None:
    for key in keys:
        target.pop(key, None)


def convert_path(item: Raw) -> Raw:
    return {
        method: [convert_parameter(one) for one in value] if method == "parameters" else convert_operation(value)
        for method, value in item.items()
    }


def convert_parameter(parameter: Raw) -> Raw:
    """The parameter in v2; one that every path has is a reference."""
    converted = inline_parameter(parameter)
    name = converted["name"]
    return {"$ref": f"#/parameters/{name}"} if SHARED_PARAMETERS.get(name) == converted else converted


def inline_parameter(parameter: Raw) -> Raw:
    return {**{key: value for key, value in parameter.items() if key != "schema"}, **parameter["schema"]}


def convert_operation(operation: Raw) -> Raw:
    parts = {key: value for key, value in operation.items() if key not in ("parameters", "requestBody", "responses")}
    parameters = [convert_parameter(one) for one in operation.get("parameters") or ()]
    body = operation.get("requestBody")
    consumes = ["*/*"]
    if body is not None:
        schema = next(iter(body["content"].values()))["schema"]
        required = {"required": True} if body.get("required") else {}
        parameters.insert(0, {"name": "body", "in": "body", **required, "schema": convert_schema(schema)})
        patches = [media for media in body["content"] if "patch" in media]
        consumes = patches or consumes
    produces = list(dict.fromkeys(m for one in operation["responses"].values() for m in one.get("content") or ()))
    found: Raw = {**parts, "consumes": consumes, "produces": produces, "schemes": ["https"]}
    if parameters:
        found["parameters"] = parameters
    return {**found, "responses": {code: _convert_response(one) for code, one in operation["responses"].items()}}


def _convert_response(response: Raw) -> Raw:
    content = response.get("content")
    if not content:
        return {"description": response["description"]}
    schema = next(iter(content.values()))["schema"]
    return {"description": response["description"], "schema": convert_schema(schema)}
