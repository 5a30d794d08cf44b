"""Pruning, defaulting and validation of whole objects by a structural schema."""

import random
import sys
from typing import Any

import pytest

from api.schema.gizmo_schema import GIZMO
from trimtab.api.limits import MAX_RULE_STEPS
from trimtab.api.schema import structural as structural_module
from trimtab.api.schema.structural import CelError, StructuralSchema
from trimtab.api.value import Raw
from trimtab.errors import Cause

gizmo = StructuralSchema(GIZMO)


def cel(expression: str, schema: Raw, value: Any, old: Any) -> Any:
    if "oldSelf" in expression:
        return "name" not in old or value.get("name") == old["name"]
    if isinstance(value["size"], float):
        raise CelError("invalid data, expected int, got float64")
    return value["size"] < 9 or value.get("color") == "green"


def texts(causes: list[Cause]) -> list[str]:
    return [f"{c.field}: {c.message}" for c in causes]


def check(spec: Raw, old: Raw | None = None) -> list[str]:
    return texts(gizmo.check({"spec": spec}, {"spec": old} if old is not None else None, cel))


SKIPPED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"size": 3}, []),
        (
            {"size": 30},
            [
                "spec.size: Invalid value: 30: spec.size in body should be less than or equal to 10",
                "spec: Invalid value: big ones are green",
            ],
        ),
        ({}, ["spec.size: Required value", SKIPPED]),
        ({"size": 3, "name": "ABCDEFG"}, ["spec.name: Too long: may not be more than 5 bytes", SKIPPED]),
        ({"size": 9}, ["spec: Invalid value: big ones are green"]),
        ({"size": 3, "set": ["a", "a"]}, ['spec.set[1]: Duplicate value: "a"']),
        (
            {"size": 3, "items": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
            ['spec.items[2]: Duplicate value: {"name":"a"}'],
        ),
        (
            {"size": 0, "color": "blue", "name": "A"},
            [
                'spec.color: Unsupported value: "blue": supported values: "red", "green"',
                'spec.name: Invalid value: "A": spec.name in body should be at least 2 chars long',
                "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
                SKIPPED,
            ],
        ),
        (
            {"size": 3.0},
            [
                'spec: Invalid value: "object": invalid data, expected int, got float64 evaluating rule: big ones are green'
            ],
        ),
        (
            {"size": "3"},
            ['spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"', SKIPPED],
        ),
        (
            {"size": 3, "small": 1.5},
            [
                'spec.small: Invalid value: "float64": spec.small in body must be of type int32: "float64"',
                '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.small',
                SKIPPED,
            ],
        ),
        (
            {"size": 3, "when": "nope"},
            ['spec.when: Invalid value: "nope": spec.when in body must be of type date-time: "nope"', SKIPPED],
        ),
        (
            {"size": 3, "name": "abc\n"},
            ["spec.name: Invalid value: \"abc\\n\": spec.name in body should match '^[a-z]+$'"],
        ),
        ({"size": 3, "ios": "5%"}, []),
        ({"size": 3, "ios": 5}, []),
        (
            {"size": 3, "ios": True},
            ['spec.ios: Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean"', SKIPPED],
        ),
        ({"size": 3, "maybe": None}, []),
        (
            {"size": 3, "labels": {"a": 1}},
            [
                'spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer"',
                SKIPPED,
            ],
        ),
        (
            {"size": 3, "items": [{"name": str(i)} for i in range(4)]},
            ["spec.items: Too many: 4: must have at most 3 items", SKIPPED],
        ),
        (
            {"size": 3, "template": {"kind": "A"}},
            ["spec.template.apiVersion: Required value: must not be empty", SKIPPED],
        ),
    ],
)
def test_validation_messages_are_those_of_kube_apiserver(spec: Raw, expected: list[str]) -> None:
    assert check(spec) == expected


def test_transition_rules_run_on_update_only() -> None:
    assert check({"size": 3, "name": "abc"}) == []
    assert check({"size": 3, "name": "xyz"}, {"size": 3, "name": "abc"}) == ["spec: Invalid value: name is immutable"]


def test_problems_in_unchanged_fields_are_ignored() -> None:
    assert check({"size": 30, "color": "green", "any": {}}, {"size": 30, "color": "green"}) == []
    assert check({"size": 31, "color": "green"}, {"size": 30, "color": "green"}) != []


def test_items_of_a_map_list_are_compared_by_key_at_any_position() -> None:
    old = {"size": 3, "items": [{"name": "a", "v": "odd"}, {"name": "b"}]}
    assert check({"size": 3, "items": [{"name": "c"}, {"name": "a", "v": "odd"}]}, old) == []
    assert check({"size": 3, "items": [{"name": "c"}, {"name": "a", "v": "other"}]}, old) != []


def test_status_write_is_validated_by_the_status_schema_alone() -> None:
    obj = {"spec": {}, "status": {"replicas": 166, "conditions": [{"type": "A"}]}}
    assert texts(gizmo.check_status(obj, None, cel)) == [
        "status.conditions[0].status: Required value",
        "status.replicas: Invalid value: 166: replicas in body should be less than or equal to 100",
        SKIPPED,
    ]


def calls_to_validate(items: int) -> int:
    """The number of function calls that pruning, defaulting and checking an object with this many items takes."""
    obj = {"spec": {"size": 3, "color": "red", "items": [{"name": str(i), "v": 1} for i in range(items)]}}
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        gizmo.apply_defaults(gizmo.prune(obj)[0])
        gizmo.check(obj)
    finally:
        sys.setprofile(before)
    return calls


def test_validation_of_every_write_takes_work_linear_in_the_size_of_the_object() -> None:
    calls_to_validate(1)  # compiles what is cached
    none, ten, hundred = (calls_to_validate(items) for items in (0, 10, 100))
    assert none < 300
    assert hundred - none <= 11 * (ten - none)


def test_rules_of_one_object_share_a_budget() -> None:
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}}
        },
    }
    calls = 0

    def count(expression: str, schema: Raw, value: Any, old: Any) -> bool:
        nonlocal calls
        calls += 1
        return True

    structural = StructuralSchema(schema)
    assert structural.check({"list": [1] * 1000}, None, count) == []
    assert calls == 1000
    (cause,) = structural.check({"list": [1] * MAX_RULE_STEPS}, None, count)
    assert "running out of cost budget" in cause.message
    assert calls < 1000 + MAX_RULE_STEPS / 10


def test_old_items_of_a_map_list_are_indexed_once(monkeypatch) -> None:
    item = {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}}
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item}
    calls = 0
    original = structural_module._item_key

    def counting(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(*arguments)

    monkeypatch.setattr(structural_module, "_item_key", counting)
    count = 500
    old = {"list": [{"name": f"n{i}", "v": "aa"} for i in range(count)]}
    new = {"list": [{"name": f"n{i}", "v": "aa" if i else "bb"} for i in reversed(range(count))]}
    found = StructuralSchema({"type": "object", "properties": {"list": keyed}}).check(new, old)
    assert [cause.field for cause in found] == [f"list[{count - 1}].v"]
    assert calls < 10 * count


def test_pattern_that_cannot_be_decided_does_not_match() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}
    (cause,) = StructuralSchema(schema).check({"a": "x"})
    assert "cannot be checked" in cause.message
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a|b)*a(a|b){200}c"}}}
    text = "".join(random.Random(1).choices("ab", k=50_000))
    (cause,) = StructuralSchema(schema).check({"a": text})
    assert "takes too many steps" in cause.message


def test_causes_name_the_key_of_a_map_in_brackets() -> None:
    rule = {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'a'"}]}
    names = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    properties = {
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": rule}}},
        "sets": {"type": "object", "additionalProperties": names},
    }
    schema = StructuralSchema({"type": "object", "properties": properties})
    value = {"map": {"one": {"x": "b"}}, "sets": {"two": ["c", "c"]}}
    found = texts(schema.check(value, None, lambda *_: False))
    assert [text.partition(": ")[0] for text in found] == ["sets[two][1]", "map[one].x"]


def test_old_value_is_an_optional_value_where_a_rule_asks_for_it() -> None:
    rule = {"rule": "!oldSelf.hasValue() || self != 'oldSelf'", "optionalOldSelf": True}
    schema = StructuralSchema(
        {"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-validations": [rule]}}}
    )
    seen = []

    def evaluate(expression: str, *_: Any) -> bool:
        seen.append(expression)
        return True

    schema.check({"a": "x"}, None, evaluate)
    schema.check({"a": "x"}, {"a": "y"}, evaluate)
    assert seen == [
        "!optional.none().hasValue() || self != 'oldSelf'",
        "!optional.of(oldSelf).hasValue() || self != 'oldSelf'",
    ]
