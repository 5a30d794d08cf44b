"""OpenAPI v2 documents in protobuf, read back field by field."""

import struct
from collections.abc import Iterator
from typing import Any

from trimtab.server.discovery.swagger_protobuf import encode_document, encode_path, encode_schema


def read_varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, at = body[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(body: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(body):
        key, at = read_varint(body, at)
        if key & 7 == 0:
            value, at = read_varint(body, at)
        elif key & 7 == 1:
            value, at = struct.unpack("<d", body[at : at + 8])[0], at + 8
        else:
            length, at = read_varint(body, at)
            value, at = body[at : at + length], at + length
        yield key >> 3, value


def test_schema_has_the_fields_of_the_message() -> None:
    encoded = encode_schema(
        {
            "type": "object",
            "required": ["a"],
            "minimum": 1.5,
            "maxItems": 300,
            "additionalProperties": {"type": "string"},
            "properties": {"a": {"enum": ["x"], "description": "d"}},
            "x-kubernetes-list-type": "map",
        }
    )
    found = dict(fields(encoded))
    assert (found[19], found[9], found[14]) == (b"a", 1.5, 300)
    assert dict(fields(found[22])) == {1: b"object"}
    assert dict(fields(found[31])) == {1: b"x-kubernetes-list-type", 2: b'\x12\x06"map"\n'}
    name_and_schema = dict(fields(dict(fields(found[25]))[1]))
    assert (name_and_schema[1], dict(fields(name_and_schema[2]))[4]) == (b"a", b"d")
    assert dict(fields(dict(fields(found[21]))[1]))[22] == b"\x0a\x06string"


def test_document_lists_paths_and_definitions() -> None:
    operation = {
        "operationId": "getX",
        "parameters": [{"name": "pretty", "in": "query", "type": "string"}],
        "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/X"}}},
    }
    head = {
        "swagger": "2.0",
        "info": {"title": "t", "version": "v"},
        "securityDefinitions": {"B": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"B": []}],
        "parameters": {"pretty": {"name": "pretty", "in": "query", "type": "string"}},
    }
    document = dict(fields(encode_document(head, {"/x": encode_path({"get": operation})}, {"X": b""})))
    path = dict(fields(dict(fields(document[8]))[2]))
    assert path[1] == b"/x"
    assert dict(fields(dict(fields(document[10]))[1]))[1] == b"pretty"
    encoded = dict(fields(dict(fields(path[2]))[2]))
    assert encoded[5] == b"getX"
    parameter = dict(fields(dict(fields(dict(fields(dict(fields(encoded[8]))[1]))[2]))[3]))
    assert (parameter[4], parameter[6]) == (b"pretty", b"string")
    assert dict(fields(dict(fields(document[9]))[1]))[1] == b"X"
