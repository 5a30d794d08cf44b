from typing import Any

import pytest

from trimtab.api.schema.structural import StructuralSchema
from trimtab.api.schema.validation import Problem, compile_check, format_path, path_steps
from trimtab.api.value import Raw
from trimtab.errors import Cause


def texts(causes: list[Cause]) -> list[str]:
    return [f"{c.field}: {c.message}" for c in causes]


def problems(schema: Raw, value: Any) -> list[Problem]:
    found: list[Problem] = []
    check = compile_check(schema)
    assert check is not None
    check(value, None, found)
    return found


def test_composite_messages_name_the_failed_keyword() -> None:
    schema = StructuralSchema(
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


def test_paths_are_formatted_as_kubernetes_writes_them() -> None:
    path = ((((None, "spec"), "items"), 0), "name")
    assert format_path(path) == "spec.items[0].name"
    assert path_steps(path) == ("spec", "items", 0, "name")


def test_problems_of_members_are_sorted_by_name_and_missing_members_come_last() -> None:
    schema = {
        "type": "object",
        "required": ["c"],
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}},
    }
    assert [problem.cause.field for problem in problems(schema, {"b": 1, "a": 2})] == ["a", "b", "c"]


def test_problem_names_the_node_it_is_about() -> None:
    schema = {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "integer", "minimum": 1}}}}
    (problem,) = problems(schema, {"list": [1, 0]})
    assert problem.node == ("list", 1)
    assert problem.cause.field == "list[1]"


def test_remembered_valid_texts_do_not_hide_invalid_ones() -> None:
    schema = {"type": "string", "pattern": "^x"}
    assert problems(schema, "x1") == []
    assert len(problems(schema, "y")) == 1
    assert len(problems(schema, "y")) == 1


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "Too many: 2: must have at most 1 items"),
        ({"minProperties": 1}, {}, "Invalid value: 0:  in body should have at least 1 properties"),
        ({"multipleOf": 3}, 4, "Invalid value: 4:  in body should be a multiple of 3"),
        ({"multipleOf": 0}, 4, 'Invalid value: "": factor MultipleOf declared for  must be positive: 0'),
        ({"exclusiveMaximum": True, "maximum": 4}, 4, "Invalid value: 4:  in body should be less than 4"),
        ({"uniqueItems": True}, [1, 1], 'Invalid value: "":  in body shouldn\'t contain duplicates'),
    ],
)
def test_limits_have_the_messages_of_kube_apiserver(schema: Raw, value: Any, message: str) -> None:
    assert [problem.cause.message for problem in problems(schema, value)] == [message]


def test_schema_without_constraints_needs_no_check() -> None:
    assert compile_check({}) is None
    assert compile_check({"description": "Anything."}) is None
