"""What a structural schema does to objects, told with a small kind that has one of everything."""

import time
from typing import Any

import pytest

from trimtab.api.schema.structural import CelFault, Structural
from trimtab.api.value import Raw
from trimtab.errors import Cause

GIZMO: Raw = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "small": {"type": "integer", "format": "int32"},
                "color": {"type": "string", "default": "red", "enum": ["red", "green"]},
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2},
                "when": {"type": "string", "format": "date-time"},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "ios": {"x-kubernetes-int-or-string": True},
                "maybe": {"type": "string", "nullable": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "items": {
                    "type": "array",
                    "maxItems": 3,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "v": {"type": "integer", "default": 7}},
                    },
                },
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            },
            "x-kubernetes-validations": [
                {"rule": "self.size < 9 || self.color == 'green'", "message": "big ones are green"},
                {"rule": "!has(oldSelf.name) || self.name == oldSelf.name", "message": "name is immutable"},
            ],
        },
        "status": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer", "maximum": 100},
                "conditions": {"type": "array", "items": {"type": "object", "required": ["type", "status"]}},
            },
        },
    },
}
gizmo = Structural(GIZMO)


def cel(expression: str, schema: Raw, value: Any, old: Any) -> Any:
    if "oldSelf" in expression:
        return "name" not in old or value.get("name") == old["name"]
    if isinstance(value["size"], float):
        raise CelFault("invalid data, expected int, got float64")
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
def test_complaints_are_those_of_kubernetes(spec: Raw, expected: list[str]) -> None:
    assert check(spec) == expected


def test_rules_that_compare_with_the_past_run_on_update_only() -> None:
    assert check({"size": 3, "name": "abc"}) == []
    assert check({"size": 3, "name": "xyz"}, {"size": 3, "name": "abc"}) == ["spec: Invalid value: name is immutable"]


def test_what_was_wrong_before_and_did_not_change_is_forgiven() -> None:
    assert check({"size": 30, "color": "green", "any": {}}, {"size": 30, "color": "green"}) == []
    assert check({"size": 31, "color": "green"}, {"size": 30, "color": "green"}) != []


def test_an_item_of_a_map_list_is_known_by_its_keys_wherever_it_stands() -> None:
    old = {"size": 3, "items": [{"name": "a", "v": "odd"}, {"name": "b"}]}
    assert check({"size": 3, "items": [{"name": "c"}, {"name": "a", "v": "odd"}]}, old) == []
    assert check({"size": 3, "items": [{"name": "c"}, {"name": "a", "v": "other"}]}, old) != []


def test_a_status_write_is_judged_by_the_status_alone_and_named_from_there() -> None:
    obj = {"spec": {}, "status": {"replicas": 166, "conditions": [{"type": "A"}]}}
    assert texts(gizmo.check_status(obj, None, cel)) == [
        "status.conditions[0].status: Required value",
        "status.replicas: Invalid value: 166: replicas in body should be less than or equal to 100",
        SKIPPED,
    ]


def test_unknown_fields_go_and_are_named() -> None:
    obj = {
        "apiVersion": "a/v1",
        "kind": "Gizmo",
        "metadata": {"name": "x", "odd": 1},
        "spec": {
            "size": 3,
            "junk": 1,
            "any": {"keep": 1},
            "items": [{"name": "a", "b": 1}],
            "template": {"metadata": {}, "x": 1},
        },
        "extra": 1,
    }
    pruned, unknown = gizmo.prune(obj)
    assert unknown == ["extra", "spec.items[0].b", "spec.junk"]
    assert pruned["spec"] == {
        "size": 3,
        "any": {"keep": 1},
        "items": [{"name": "a"}],
        "template": {"metadata": {}, "x": 1},
    }
    assert pruned["metadata"] == {"name": "x", "odd": 1}
    assert obj["extra"] == 1, "what was handed in stays as it was"


def test_objects_where_none_belong_lose_their_members_whatever_the_type_says() -> None:
    pruned, unknown = gizmo.prune({"spec": {"size": 3, "name": [{"a": 1}, "b"], "color": {"x": 1}}})
    assert pruned["spec"] == {"size": 3, "name": [{}, "b"], "color": {}}
    assert unknown == ["spec.color.x", "spec.name[0].a"]


def test_an_object_with_nothing_to_prune_or_fill_in_is_handed_back_itself() -> None:
    obj = {"spec": {"size": 3, "color": "red"}}
    assert gizmo.prune(obj)[0] is obj
    assert gizmo.fill(obj) is obj


def test_defaults_fill_what_is_absent_or_null() -> None:
    obj = {"spec": {"size": 3, "color": None, "items": [{"name": "a"}, {"name": "b", "v": 0}]}}
    assert gizmo.fill(obj)["spec"] == {
        "size": 3,
        "color": "red",
        "items": [{"name": "a", "v": 7}, {"name": "b", "v": 0}],
    }


def test_a_null_that_means_nothing_counts_as_not_said() -> None:
    pruned, unknown = gizmo.prune({"spec": {"size": 3, "name": None, "maybe": None, "color": None}})
    assert pruned["spec"] == {"size": 3, "maybe": None, "color": None}
    assert unknown == []


def test_composites_say_which_one_failed() -> None:
    schema = Structural(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "anyOf": [{"pattern": "^x"}, {"pattern": "^y"}]},
                "b": {"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]},
                "c": {"type": "integer", "not": {"minimum": 5}},
            },
        }
    )
    assert texts(schema.check({"a": "z", "b": 3, "c": 6})) == [
        '<nil>: Invalid value: "": "a" must validate at least one schema (anyOf)',
        "a: Invalid value: \"z\": a in body should match '^x'",
        '<nil>: Invalid value: "": "b" must validate one and only one schema (oneOf). Found 2 valid alternatives',
        '<nil>: Invalid value: "": "c" must not validate the schema (not)',
    ]


def test_it_is_fast_enough_to_run_on_each_write() -> None:
    obj = {"spec": {"size": 3, "color": "red", "items": [{"name": str(i), "v": 1} for i in range(3)]}}
    start = time.perf_counter()
    for _ in range(200):
        gizmo.fill(gizmo.prune(obj)[0])
        gizmo.check(obj)
    assert (time.perf_counter() - start) / 200 < 0.001
