"""The fast check accepts only values in which the full check finds no problem."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api.kind import kind_of
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.schema.fast_check import FastCheck
from trimtab.api.schema.from_types import schema_for
from trimtab.api.schema.structural import StructuralSchema
from trimtab.api.schema.validation import Problem, compile_check
from trimtab.api.value import Raw

NAMES = st.sampled_from(["a", "b", 'with "quotes"', "back\\slash", "two\nlines", ""])
BOUNDS = st.sampled_from([-1, 0, 1, 2, 2.5, 1 << 70])
LIMITS: dict[str, st.SearchStrategy[Any]] = {
    "nullable": st.booleans(),
    "enum": st.lists(st.sampled_from(["x", "yy", 1, True, None, {}]), max_size=3),
    "minLength": BOUNDS,
    "maxLength": BOUNDS,
    "minItems": BOUNDS,
    "maxItems": BOUNDS,
    "minimum": BOUNDS,
    "maximum": BOUNDS,
    "exclusiveMinimum": st.booleans(),
    "multipleOf": st.sampled_from([2, 3]),
    "pattern": st.just("^x"),
    "format": st.sampled_from(["int32", "int64", "date-time", "ipv4", "unknown"]),
    "uniqueItems": st.booleans(),
    "minProperties": st.sampled_from([0, 1]),
    "x-kubernetes-int-or-string": st.booleans(),
    "anyOf": st.sampled_from([[{"type": "integer"}, {"type": "string"}], [{"type": "string", "maxLength": 1}]]),
    "oneOf": st.just([{"type": "string"}, {"type": "string", "maxLength": 1}]),
    "not": st.just({"type": "string", "enum": ["x"]}),
    "required": st.lists(NAMES, max_size=2),
}
TYPES = ("string", "integer", "number", "boolean", "array", "object")


def _schema(parts: tuple[str | None, Raw, Raw]) -> Raw:
    type_, limits, inside = parts
    return {**({"type": type_} if type_ else {}), **limits, **inside}


def _schemas_around(inner: st.SearchStrategy[Raw]) -> st.SearchStrategy[Raw]:
    inside = st.fixed_dictionaries(
        {},
        optional={"items": inner, "properties": st.dictionaries(NAMES, inner), "additionalProperties": inner},
    )
    limits = st.fixed_dictionaries({}, optional=LIMITS)
    few = limits.map(lambda found: dict(list(found.items())[:2]))
    return st.tuples(st.sampled_from((None, *TYPES)), few, inside).map(_schema)


SCHEMAS = st.recursive(_schemas_around(st.just({})), _schemas_around, max_leaves=4)
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1 << 40, 1 << 80, "x", "yy", "\ud800", ""])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)


def problems_of(schema: Raw, value: Any) -> list[Problem]:
    found: list[Problem] = []
    if (check := compile_check(schema)) is not None:
        check(value, None, found)
    return found


@settings(max_examples=400)
@given(SCHEMAS, VALUES)
def test_accepted_values_have_no_problems(schema: Raw, value: Any) -> None:
    if FastCheck(schema).accepts(value):
        assert problems_of(schema, value) == []


@pytest.mark.parametrize("type_", TYPES)
def test_float_is_accepted_only_for_type_number(type_: str) -> None:
    assert FastCheck({"type": type_}).accepts(1.5) == (type_ == "number")


def test_integral_float_is_left_to_the_full_check() -> None:
    assert not FastCheck({"type": "integer"}).accepts(1.0)
    assert problems_of({"type": "integer"}, 1.0) == []


def test_times_and_quantities_of_a_binding_are_accepted() -> None:
    binding: Raw = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "web"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "clusters": [{"name": "one", "replicas": 2}],
            "replicaRequirements": {"resourceRequest": {"cpu": "100m", "memory": 1}},
        },
        "status": {"lastScheduledTime": "2030-01-01T00:00:00Z"},
    }
    fast_check = FastCheck(schema_for(kind_of(ResourceBinding)))
    assert fast_check.accepts(binding)
    assert not fast_check.accepts({**binding, "status": {"lastScheduledTime": "noon"}})
    assert not fast_check.accepts({**binding, "spec": {**binding["spec"], "clusters": [{"replicas": 2}]}})


MEMBERS = st.dictionaries(NAMES, VALUES, max_size=3)


@settings(max_examples=200)
@given(st.dictionaries(NAMES, SCHEMAS, max_size=3), st.lists(NAMES, max_size=2), MEMBERS, MEMBERS)
def test_parts_that_a_write_left_alone_are_not_checked_again(
    properties: dict[str, Raw], required: list[str], old: Raw, changed: Raw
) -> None:
    schema = StructuralSchema({"type": "object", "properties": properties, "required": required})
    new = {**old, **changed}
    assert schema.check(new, old) == schema.check(copy.deepcopy(new), copy.deepcopy(old))


def test_missing_member_is_found_although_the_old_value_lacked_it_as_well() -> None:
    schema = StructuralSchema({"type": "object", "required": ["a"], "properties": {"b": {"type": "array"}}})
    old: Raw = {"b": [], "c": 1}
    assert schema.check({**old, "c": 2}, old)
