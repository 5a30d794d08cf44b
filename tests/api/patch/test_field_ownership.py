from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.patch.field_ownership import (
    FieldSet,
    applied_fields,
    compare,
    difference,
    format_paths,
    intersection,
    is_field_set,
    items_by_element,
    sort_fields,
    union,
)
from trimtab.api.patch.merge_schema import merge_schema_of

GIZMO = merge_schema_of(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "map": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    },
                },
            }
        },
    }
)
nodes = st.recursive(
    st.just({}),
    lambda inner: (
        st.dictionaries(st.sampled_from(["f:a", "f:b", "f:c"]), inner, min_size=1, max_size=3)
        | st.dictionaries(st.sampled_from(["f:a", "f:b"]), inner, min_size=1).map(lambda fields: {".": {}, **fields})
    ),
    max_leaves=6,
)
field_sets = st.dictionaries(st.sampled_from(["f:a", "f:b", "f:c"]), nodes, max_size=3)


def members(fields: FieldSet) -> set[str]:
    return set(format_paths(fields))


@given(field_sets, field_sets)
def test_set_operations_are_those_of_sets_of_paths(one: FieldSet, other: FieldSet) -> None:
    assert members(union(one, other)) == members(one) | members(other)
    assert members(difference(one, other)) == members(one) - members(other)
    assert members(intersection(one, other)) == members(one) & members(other)


def test_difference_of_disjoint_sets_is_the_same_object() -> None:
    fields: FieldSet = {"f:a": {"f:b": {}}}
    assert difference(fields, {"f:c": {}}) is fields


def test_paths_are_formatted_with_shallow_ones_first() -> None:
    fields: FieldSet = {"f:spec": {".": {}, "f:map": {'k:{"name":"x"}': {}}, "f:set": {'v:"y"': {}}}, "f:data": {}}
    assert list(format_paths(fields)) == [".data", ".spec", '.spec.map[name="x"]', '.spec.set[="y"]']


@pytest.mark.parametrize(
    ("fields", "valid"),
    [
        ({"f:a": {".": {}, 'k:{"name":"x"}': {}}}, True),
        ({'v:"x"': {}, "i:0": {}}, True),
        ({"a": {}}, False),
        ({"k:[]": {}}, False),
        ({"k:{": {}}, False),
        ({"f:a": 1}, False),
        ([], False),
    ],
)
def test_field_set_is_recognised(fields: Any, valid: bool) -> None:
    assert is_field_set(fields) is valid


def test_list_items_are_identified_by_their_keys() -> None:
    spec = GIZMO.fields["spec"]
    assert items_by_element([{"name": "x"}, {"other": 1}], spec.fields["map"]) == {'k:{"name":"x"}': {"name": "x"}}
    assert items_by_element(["x"], spec.fields["set"]) == {'v:"x"': "x"}


def test_comparison_separates_added_modified_and_removed_fields() -> None:
    old = {"spec": {"size": 1, "set": ["a"], "map": [{"name": "x"}]}}
    new = {"spec": {"size": 2, "set": ["b"], "map": [{"name": "x"}]}}
    found = compare(old, new, GIZMO)
    assert members(found.modified) == {".spec.size"}
    assert members(found.added) == {'.spec.set[="b"]'}
    assert members(found.removed) == {'.spec.set[="a"]'}


def test_applied_configuration_claims_leaves_and_items_but_no_structs() -> None:
    config = {"spec": {"size": 1, "map": [{"name": "x"}]}}
    assert applied_fields(config, GIZMO) == {
        "f:spec": {"f:size": {}, "f:map": {'k:{"name":"x"}': {".": {}, "f:name": {}}}},
    }


def entries_in_order(fields: FieldSet) -> list[Any]:
    return [(element, entries_in_order(node)) for element, node in fields.items()]


def sorted_entries(fields: FieldSet) -> list[Any]:
    return [(element, sorted_entries(fields[element])) for element in sorted(fields)]


@given(st.recursive(st.just({}), lambda inner: st.dictionaries(st.text(max_size=4), inner, max_size=5)))
def test_fields_are_sorted_by_element_at_every_level(fields: FieldSet) -> None:
    assert entries_in_order(sort_fields(fields)) == sorted_entries(fields)


def test_equal_sets_are_shared_and_others_are_not() -> None:
    first, second = sort_fields({"f:b": {}, "f:a": {}}), sort_fields({"f:a": {}, "f:b": {}})
    assert first is second
    assert sort_fields({"f:a": {}, "f:b": {"f:c": {}}}) == {"f:a": {}, "f:b": {"f:c": {}}}


def test_large_sets_are_not_kept() -> None:
    fields: FieldSet = {f"f:{number}": {} for number in range(1000)}
    assert sort_fields(fields) == sort_fields(fields)
    assert sort_fields(fields) is not sort_fields(fields)


def test_fields_that_cannot_be_encoded_are_left_as_they_are() -> None:
    fields: FieldSet = {"f:\ud800": {}, "f:a": {}}
    assert sort_fields(fields) == fields


def test_list_that_was_null_is_added_item_by_item() -> None:
    items = [{"name": "a", "size": 1}]
    from_null = compare({"spec": {"map": None}}, {"spec": {"map": items}}, GIZMO)
    from_empty = compare({"spec": {"map": []}}, {"spec": {"map": items}}, GIZMO)
    assert from_null == from_empty
    assert list(from_null.added["f:spec"]["f:map"]) == ['k:{"name":"a"}']
