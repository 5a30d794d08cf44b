"""The conversion of OpenAPI schemas and operations to version 2."""

from typing import Any

import pytest

from trimtab.server.discovery.swagger import convert_definition, convert_operation, convert_schema

SPEC = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"allOf": [{"$ref": "#/components/schemas/x.Y"}], "default": {}, "description": "d"},
            {"$ref": "#/definitions/x.Y", "description": "d"},
        ),
        ({"type": "string", "nullable": True, "maxLength": 3}, {"maxLength": 3}),
        ({"type": "array", "items": SPEC, "nullable": True}, {}),
        (
            {**SPEC, "x-kubernetes-preserve-unknown-fields": True},
            {"x-kubernetes-preserve-unknown-fields": True},
        ),
        ({"type": "array", "items": {"type": "string"}, "anyOf": [{}]}, {"type": "array", "items": {"type": "string"}}),
        ({"format": "int-or-string", "oneOf": [{}]}, {"format": "int-or-string", "type": "string"}),
        (
            {"properties": {"default": {"type": "string", "default": "x"}}},
            {"properties": {"default": {"type": "string"}}},
        ),
        (
            {"properties": {"a": {"nullable": True}, "b": {"type": "string"}}, "required": ["a", "b"]},
            {"properties": {"a": {}, "b": {"type": "string"}}, "required": ["b"]},
        ),
    ],
)
def test_schema_keeps_only_what_clients_of_version_2_understand(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert convert_schema(schema) == expected


def test_kind_that_preserves_unknown_fields_lists_no_properties() -> None:
    kind = {"x-kubernetes-group-version-kind": [{"group": "g", "version": "v1", "kind": "K"}]}
    assert (
        convert_definition({**SPEC, **kind, "x-kubernetes-preserve-unknown-fields": True}) == {"type": "object"} | kind
    )


def test_body_of_an_operation_becomes_a_parameter() -> None:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/x.Y"}}}
    operation = {
        "operationId": "createX",
        "parameters": [{"name": "dryRun", "in": "query", "schema": {"type": "string", "uniqueItems": True}}],
        "requestBody": {"content": content, "required": True},
        "responses": {"200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}},
    }
    converted = convert_operation(operation)
    reference = {"$ref": "#/definitions/x.Y"}
    assert converted["parameters"] == [
        {"name": "body", "in": "body", "required": True, "schema": reference},
        {"name": "dryRun", "in": "query", "type": "string", "uniqueItems": True},
    ]
    assert converted["responses"] == {
        "200": {"description": "OK", "schema": reference},
        "401": {"description": "Unauthorized"},
    }
    assert (converted["consumes"], converted["produces"]) == (["*/*"], ["application/json"])
