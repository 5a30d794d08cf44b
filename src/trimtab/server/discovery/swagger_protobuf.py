"""Encodes OpenAPI v2 documents in the protobuf form that kubectl requests (the messages of gnostic's `openapi.v2`)."""

import struct
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from trimtab.api.protobuf_wire import FIXED64, encode_delimited, encode_integer, encode_key
from trimtab.api.value import Raw

_STRING, _BOOL, _INTEGER, _NUMBER, _ANY, _STRINGS, _ANYS = range(7)
_SCHEMA_FIELDS: Mapping[str, tuple[int, int]] = {
    "$ref": (1, _STRING),
    "format": (2, _STRING),
    "title": (3, _STRING),
    "description": (4, _STRING),
    "default": (5, _ANY),
    "multipleOf": (6, _NUMBER),
    "maximum": (7, _NUMBER),
    "exclusiveMaximum": (8, _BOOL),
    "minimum": (9, _NUMBER),
    "exclusiveMinimum": (10, _BOOL),
    "maxLength": (11, _INTEGER),
    "minLength": (12, _INTEGER),
    "pattern": (13, _STRING),
    "maxItems": (14, _INTEGER),
    "minItems": (15, _INTEGER),
    "uniqueItems": (16, _BOOL),
    "maxProperties": (17, _INTEGER),
    "minProperties": (18, _INTEGER),
    "required": (19, _STRINGS),
    "enum": (20, _ANYS),
    "example": (30, _ANY),
}
_SCHEMA_EXTENSION = 31
_OPERATION_FIELDS: Mapping[str, tuple[int, int]] = {
    "tags": (1, _STRINGS),
    "description": (3, _STRING),
    "operationId": (5, _STRING),
    "produces": (6, _STRINGS),
    "consumes": (7, _STRINGS),
    "schemes": (10, _STRINGS),
}
_OPERATION_EXTENSION = 13
_QUERY_FIELDS: Mapping[str, tuple[int, int]] = {
    "required": (1, _BOOL),
    "in": (2, _STRING),
    "description": (3, _STRING),
    "name": (4, _STRING),
    "type": (6, _STRING),
    "format": (7, _STRING),
    "uniqueItems": (20, _BOOL),
}
_PATH_FIELDS = {**_QUERY_FIELDS, "type": (5, _STRING), "format": (6, _STRING), "uniqueItems": (19, _BOOL)}
_BODY_FIELDS: Mapping[str, tuple[int, int]] = {
    "description": (1, _STRING),
    "name": (2, _STRING),
    "in": (3, _STRING),
    "required": (4, _BOOL),
}
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def text(number: int, value: str) -> bytes:
    return encode_delimited(number, value.encode())


def _any(number: int, value: Any) -> bytes:
    return encode_delimited(
        number, encode_delimited(2, orjson.dumps(value) + b"\n")
    )  # JSON is YAML, which the message holds


_ENCODERS: Mapping[int, Callable[[int, Any], bytes]] = {
    _STRING: text,
    _BOOL: lambda number, value: encode_integer(number, 1) if value else b"",
    _INTEGER: lambda number, value: encode_integer(number, int(value)),
    _NUMBER: lambda number, value: encode_key(number, FIXED64) + struct.pack("<d", value),
    _ANY: _any,
    _STRINGS: lambda number, values: b"".join(text(number, value) for value in values),
    _ANYS: lambda number, values: b"".join(_any(number, value) for value in values),
}


def _encode_fields(source: Raw, fields: Mapping[str, tuple[int, int]]) -> bytes:
    known = ((fields[key], value) for key, value in source.items() if key in fields)
    return b"".join(_ENCODERS[kind](number, value) for (number, kind), value in known)


def _encode_extensions(number: int, source: Raw) -> bytes:
    return b"".join(
        encode_delimited(number, text(1, key) + _any(2, value)) for key, value in source.items() if key.startswith("x-")
    )


def map_entry(name: str, body: bytes) -> bytes:
    """An entry of a map: its name and its value."""
    return text(1, name) + encode_delimited(2, body)


def encode_schema(schema: Raw) -> bytes:
    parts = [_encode_fields(schema, _SCHEMA_FIELDS), _encode_extensions(_SCHEMA_EXTENSION, schema)]
    further = schema.get("additionalProperties")
    if further is not None:
        is_schema = isinstance(further, dict)
        parts.append(
            encode_delimited(
                21, encode_delimited(1, encode_schema(further)) if is_schema else encode_integer(2, further)
            )
        )
    if type_ := schema.get("type"):
        parts.append(encode_delimited(22, text(1, type_)))
    if items := schema.get("items"):
        parts.append(encode_delimited(23, encode_delimited(1, encode_schema(items))))
    if properties := schema.get("properties"):
        entries = (encode_delimited(1, map_entry(name, encode_schema(one))) for name, one in properties.items())
        parts.append(encode_delimited(25, b"".join(entries)))
    return b"".join(parts)


def _encode_parameter(parameter: Raw) -> bytes:
    """A parameter in the wrappers of its alternatives: by value or by reference."""
    if "$ref" in parameter:
        return encode_delimited(2, text(1, parameter["$ref"]))
    return encode_delimited(1, _encode_parameter_value(parameter))


def _encode_parameter_value(parameter: Raw) -> bytes:
    """A parameter in the wrappers of its alternatives: in the body or elsewhere."""
    place = parameter["in"]
    if place == "body":
        body = _encode_fields(parameter, _BODY_FIELDS) + encode_delimited(5, encode_schema(parameter["schema"]))
        return encode_delimited(1, body)
    number, fields = (4, _PATH_FIELDS) if place == "path" else (3, _QUERY_FIELDS)
    return encode_delimited(2, encode_delimited(number, _encode_fields(parameter, fields)))


def _encode_response(response: Raw) -> bytes:
    schema = response.get("schema")
    body = text(1, response["description"]) + (
        encode_delimited(2, encode_delimited(1, encode_schema(schema))) if schema else b""
    )
    return encode_delimited(1, body)


def _encode_operation(operation: Raw) -> bytes:
    parts = [_encode_fields(operation, _OPERATION_FIELDS), _encode_extensions(_OPERATION_EXTENSION, operation)]
    parts += [encode_delimited(8, _encode_parameter(one)) for one in operation.get("parameters") or ()]
    codes = (
        encode_delimited(1, map_entry(code, _encode_response(one))) for code, one in operation["responses"].items()
    )
    return b"".join([*parts, encode_delimited(9, b"".join(codes))])


def encode_path(item: Raw) -> bytes:
    operations = (
        encode_delimited(_METHODS[key], _encode_operation(one)) for key, one in item.items() if key in _METHODS
    )
    return b"".join(
        [*operations, *(encode_delimited(9, _encode_parameter(one)) for one in item.get("parameters") or ())]
    )


def encode_document(head: Raw, paths: Mapping[str, bytes], definitions: Mapping[str, bytes]) -> bytes:
    """The whole document, of paths and definitions that are encoded already."""
    info = text(1, head["info"]["title"]) + text(2, head["info"]["version"])
    security = b"".join(
        encode_delimited(
            1, map_entry(name, encode_delimited(2, text(1, one["type"]) + text(2, one["name"]) + text(3, one["in"])))
        )
        for name, one in head["securityDefinitions"].items()
    )
    parameters = ((name, _encode_parameter_value(one)) for name, one in head["parameters"].items())
    requirements = [
        encode_delimited(12, encode_delimited(1, map_entry(name, b""))) for one in head["security"] for name in one
    ]
    return b"".join(
        [
            text(1, head["swagger"]),
            encode_delimited(2, info),
            encode_delimited(8, b"".join(encode_delimited(2, map_entry(name, body)) for name, body in paths.items())),
            encode_delimited(
                9, b"".join(encode_delimited(1, map_entry(name, body)) for name, body in definitions.items())
            ),
            encode_delimited(10, b"".join(encode_delimited(1, map_entry(*shared)) for shared in parameters)),
            *requirements,
            encode_delimited(13, security),
        ]
    )
