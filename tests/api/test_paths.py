"""Reading and replacing values at paths in raw objects."""

from trimtab.api.paths import (
    api_version_and_kind,
    indexed_objects,
    int_at,
    int_or_zero,
    list_at,
    map_objects_at,
    object_at,
    objects_at,
    string_at,
    strings_in,
    value_at,
    with_value,
    without_value,
)

OBJECT = {"spec": {"name": "a", "replicas": 2.0, "list": [{"x": 1}, "y", {"x": 2}], "on": True}}


def test_missing_steps_and_wrong_shapes_read_as_empty() -> None:
    assert value_at(OBJECT, "spec", "name", "deeper") is None
    assert value_at(None, "spec") is None
    assert object_at(OBJECT, "spec", "name") == {}
    assert list_at(OBJECT, "spec", "name") == []
    assert string_at(OBJECT, "spec", "replicas") == ""
    assert strings_in("abc") == []


def test_values_are_read_by_type() -> None:
    assert value_at(OBJECT, "spec", "name") == string_at(OBJECT, "spec", "name") == "a"
    assert objects_at(OBJECT, "spec", "list") == [{"x": 1}, {"x": 2}]
    assert list(indexed_objects(OBJECT["spec"]["list"])) == [(0, {"x": 1}), (2, {"x": 2})]
    assert strings_in(OBJECT["spec"]["list"]) == ["y"]


def test_booleans_are_not_numbers_and_floats_only_at_paths() -> None:
    assert int_at(OBJECT, "spec", "replicas") == 2
    assert int_at(OBJECT, "spec", "on") == 0
    assert (int_or_zero(3), int_or_zero(3.0), int_or_zero(True)) == (3, 0, 0)


def test_setting_a_value_copies_the_way_to_it_and_creates_missing_mappings() -> None:
    changed = with_value(OBJECT, 1, "status", "a", "b")
    assert changed["status"] == {"a": {"b": 1}}
    assert changed["spec"] is OBJECT["spec"]
    assert "status" not in OBJECT


def test_removing_a_value_copies_only_when_it_is_there() -> None:
    assert "name" not in without_value(OBJECT, "spec", "name")["spec"]
    assert OBJECT["spec"]["name"] == "a"
    assert without_value(OBJECT, "spec", "missing") is OBJECT
    assert without_value(OBJECT, "spec", "name", "deeper") is OBJECT


def test_mapping_a_list_returns_the_same_object_when_nothing_changes() -> None:
    assert map_objects_at(OBJECT, ("spec", "list"), lambda item: item) is OBJECT
    assert map_objects_at(OBJECT, ("spec", "name"), lambda _: {}) is OBJECT
    changed = map_objects_at(OBJECT, ("spec", "list"), lambda item: {**item, "x": 0})
    assert changed["spec"]["list"] == [{"x": 0}, "y", {"x": 0}]


def test_api_version_and_kind_are_empty_when_they_are_no_strings() -> None:
    assert api_version_and_kind({"apiVersion": "v1", "kind": 3}) == ("v1", "")
