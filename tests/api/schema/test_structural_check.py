"""Schemas that are not structural are rejected with reason and field."""

import pytest

from trimtab.api import kinds as declarations
from trimtab.api.kind import Kind, kinds
from trimtab.api.limits import MAX_PATTERNS, MAX_RULES
from trimtab.api.schema.from_types import crd
from trimtab.api.schema.structural_check import RuleFault, definition_causes
from trimtab.api.value import Raw
from trimtab.registry import discover

discover(declarations)


def definition(schema: Raw | None) -> Raw:
    version: Raw = {"name": "v1", "served": True, "storage": True}
    return {"spec": {"versions": [version | ({"schema": {"openAPIV3Schema": schema}} if schema is not None else {})]}}


def messages(schema: Raw | None) -> list[str]:
    return [f"{c.field}: {c.message}" for c in definition_causes(definition(schema))]


KEY_NEEDS_VALUE = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
ROOT = "spec.validation.openAPIV3Schema"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, ["spec.versions[0].schema.openAPIV3Schema: Required value"]),
        ({}, [f"{ROOT}.type: Required value: must not be empty at the root"]),
        ({"type": "string"}, [f'{ROOT}.type: Invalid value: "string": must be object at the root']),
        (
            {"type": "object", "properties": {"spec": {}}},
            [f"{ROOT}.properties[spec].type: Required value: must not be empty for specified object fields"],
        ),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {}}}},
            [f"{ROOT}.properties[a].items.type: Required value: must not be empty for specified array items"],
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}},
            [
                f"{ROOT}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
                f"{ROOT}.additionalProperties: Forbidden: must not be used at the root",
            ],
        ),
        (
            {
                "type": "object",
                "properties": {
                    "a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": True}
                },
            },
            [],
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"type": "string"}]}}},
            [f"{ROOT}.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"], "default": "y"}}},
            [f'{ROOT}.properties[a].default: Unsupported value: "y": supported values: "x"'],
        ),
        (
            {
                "type": "object",
                "properties": {
                    "a": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                    }
                },
            },
            [
                f"{ROOT}.properties[a].items.properties[name].default: Required value: {KEY_NEEDS_VALUE}",
            ],
        ),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, []),
        (
            {"type": "object", "properties": {"a": {"type": "null"}}},
            [
                f'{ROOT}.properties[a].type: Unsupported value: "null": supported values: "array", "boolean", "integer", "number", "object", "string"',
                f"{ROOT}.properties[a].type: Forbidden: type cannot be set to null, use nullable as an alternative",
            ],
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
            [
                f'{ROOT}.properties[a].pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: error parsing regexp: missing closing ): `(`'
            ],
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "object", "default": {"z": 1}, "properties": {"b": {"type": "string"}}}},
            },
            [f'{ROOT}.properties[a].default: Invalid value: {{"z":1}}: must not have unknown fields'],
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"default": "x", "nullable": True}]}}},
            [
                f"{ROOT}.properties[a].anyOf[0].default: Forbidden: must be undefined to be structural",
                f"{ROOT}.properties[a].anyOf[0].nullable: Forbidden: must be false to be structural",
            ],
        ),
    ],
)
def test_schema_that_is_not_structural_is_rejected_with_reason_and_field(
    schema: Raw | None, expected: list[str]
) -> None:
    assert messages(schema) == expected


@pytest.mark.parametrize("kind", [k for k in kinds.values() if k.custom], ids=lambda kind: kind.id)
def test_our_own_definitions_are_structural(kind: Kind) -> None:
    assert definition_causes(crd(kind)) == []


def with_pattern(pattern: str) -> Raw:
    return {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}


@pytest.mark.parametrize("pattern", ["(?=a)", r"\p{Greek}", "a++", r"a\Z", "(" * 200 + ")" * 200])
def test_pattern_that_cannot_be_enforced_is_refused_with_its_path(pattern: str) -> None:
    (message,) = messages(with_pattern(pattern))
    assert message.startswith(f"{ROOT}.properties[a].pattern: Invalid value: ")
    assert "must be a valid regular expression, but isn't: error parsing regexp: " in message


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_pattern_in_a_branch_is_checked(keyword: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", keyword: [{"pattern": "(?=a)"}]}}}
    assert [m.partition(": ")[0] for m in messages(schema)] == [f"{ROOT}.properties[a].{keyword}[0].pattern"]
    schema = {"type": "object", "properties": {"a": {"type": "string", "not": {"pattern": "("}}}}
    assert [m.partition(": ")[0] for m in messages(schema)] == [f"{ROOT}.properties[a].not.pattern"]


def test_size_of_all_patterns_and_rules_together_is_bounded() -> None:
    many = {f"p{i}": {"type": "string", "pattern": f"a{i}"} for i in range(MAX_PATTERNS + 1)}
    large = {f"p{i}": {"type": "string", "pattern": f"a{i}[a-z]{{1,1000}}"} for i in range(MAX_PATTERNS)}
    for properties in (many, large):
        (message,) = messages({"type": "object", "properties": properties})
        assert message.startswith("spec.versions: Forbidden: the patterns of all schemas are too large")
    rules = [{"rule": f"self.a != {i}"} for i in range(MAX_RULES + 1)]
    (message,) = messages({"type": "object", "x-kubernetes-validations": rules})
    assert "different rules" in message


@pytest.mark.parametrize("place", [{"$ref": "tls"}, {"allOf": [{"$ref": "xList"}]}, {"items": {"$ref": "tls"}}])
def test_references_are_refused_without_a_check_of_rules(place: Raw) -> None:
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "true"}], "properties": {"a": place}}
    versions = [{"schema": {"openAPIV3Schema": schema}}]
    causes = definition_causes({"spec": {"versions": versions}}, lambda *_: pytest.fail("it is checked"))
    assert any("$ref" in cause.field for cause in causes)


def test_rule_that_does_not_compile_is_refused_with_its_path() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {
                "type": "array",
                "items": {
                    "type": "object",
                    "x-kubernetes-validations": [{"rule": "good"}, {"rule": "bad", "messageExpression": "bad"}],
                },
            }
        },
    }
    found = definition_causes(
        definition(schema), lambda text, is_rule, _: RuleFault(f"{text} {is_rule}") if text == "bad" else None
    )
    where = f"{ROOT}.properties[a].items.x-kubernetes-validations[1]"
    assert [(cause.field, cause.message) for cause in found] == [
        (f"{where}.rule", 'Invalid value: "bad": bad True'),
        (f"{where}.messageExpression", 'Invalid value: "bad": bad False'),
    ]


RULE = f"{ROOT}.properties[spec].x-kubernetes-validations[0]"


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ({"rule": "true", "message": "no", "reason": "FieldValueForbidden", "fieldPath": ".o.x"}, []),
        ({"rule": "true", "fieldPath": ".o['d-e']"}, []),
        ({"rule": "true", "fieldPath": ".m.any"}, []),
        ({"rule": "true", "message": " "}, ['message: Invalid value: " ": message must be non-empty if specified']),
        (
            {"rule": "true", "message": "a\nb"},
            ['message: Invalid value: "a\\nb": message must not contain line breaks'],
        ),
        (
            {"rule": "true\n&& true"},
            ["message: Required value: message must be specified if rule contains line breaks"],
        ),
        (
            {"rule": "true", "messageExpression": " "},
            ["messageExpression: Required value: messageExpression must be non-empty if specified"],
        ),
        (
            {"rule": "true", "reason": "Other"},
            [
                (
                    'reason: Unsupported value: "Other": supported values: "FieldValueDuplicate", "FieldValueForbidden", '
                    '"FieldValueInvalid", "FieldValueRequired"'
                )
            ],
        ),
        ({"rule": "true", "fieldPath": "o.x"}, ['fieldPath: Invalid value: "o.x": fieldPath must be a valid path']),
        ({"rule": "true", "fieldPath": ".o.y"}, ['fieldPath: Invalid value: ".o.y": fieldPath must be a valid path']),
        ({"rule": "true", "fieldPath": ".l[0]"}, ['fieldPath: Invalid value: ".l[0]": fieldPath must be a valid path']),
    ],
)
def test_fields_of_rules_are_checked(rule: dict[str, str], found: list[str]) -> None:
    text = {"type": "string"}
    properties = {
        "o": {"type": "object", "properties": {"x": text, "d-e": text}},
        "m": {"type": "object", "additionalProperties": text},
        "l": {"type": "array", "items": text},
    }
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": [rule]}
    schema = {"type": "object", "properties": {"spec": spec}}
    causes = definition_causes(definition(schema))
    assert [f"{c.field.removeprefix(f'{RULE}.')}: {c.message}" for c in causes] == found
