from typing import Any

import jsonpatch
import jsonpointer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api.patch.json_patch import apply_json_patch
from trimtab.errors import BadRequest, Invalid, TooLarge

names = st.sampled_from(["a", "b", "c/d", "e~f", "0"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(names, values, max_size=4)
tokens = st.sampled_from(["a", "b", "c~1d", "e~0f", "0", "1", "2", "-"])
pointers = st.lists(tokens, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))


@st.composite
def operations(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(["add", "replace", "remove", "move", "copy"]))
    operation: dict[str, Any] = {"op": name, "path": draw(pointers)}
    if name in ("add", "replace"):
        operation["value"] = draw(values)
    elif name in ("move", "copy"):
        operation["from"] = draw(pointers)
    return operation


def apply_with_reference(document: Any, patch: list[dict[str, Any]]) -> Any:
    """Apply with the reference implementation; an object gets a replaced member also when it had none."""
    for operation in patch:
        if operation["op"] == "replace":
            parent = operation["path"].rpartition("/")[0]
            if isinstance(jsonpointer.resolve_pointer(document, parent), dict):
                operation = operation | {"op": "add"}  # noqa: PLW2901
        document = jsonpatch.apply_patch(document, [operation])
    return document


@settings(max_examples=300, deadline=None)
@given(documents, st.lists(operations(), max_size=3))
def test_operations_agree_with_the_reference_implementation(
    document: dict[str, Any], patch: list[dict[str, Any]]
) -> None:
    try:
        expected = apply_with_reference(document, patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError, AttributeError):
        with pytest.raises(Invalid):
            apply_json_patch(document, patch)
        return
    before = repr(document)
    assert apply_json_patch(document, patch) == expected
    assert repr(document) == before


@settings(max_examples=100, deadline=None)
@given(documents, documents)
def test_computed_patch_turns_one_document_into_the_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    patch = jsonpatch.make_patch(one, other).patch
    assert apply_json_patch(one, patch) == other


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/k", "value": "zz"},
        {"op": "frob", "path": "/data/k"},
        {"op": "remove", "path": "/data/none"},
        {"op": "add", "path": "/none/k", "value": 1},
        {"op": "replace", "path": "/data/k"},
        {"op": "remove"},
    ],
)
def test_failed_operation_is_rejected_without_details(operation: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as raised:
        apply_json_patch({"data": {"k": "v"}}, [operation])
    status = raised.value.status()
    assert status["message"] == "the server rejected our request due to an error in our request"
    assert status["details"] == {}


def test_replacing_an_absent_member_adds_it_as_kube_apiserver_does() -> None:
    operation = {"op": "replace", "path": "/spec/b", "value": True}
    assert apply_json_patch({"spec": {"a": 1}}, [operation]) == {"spec": {"a": 1, "b": True}}
    for path in ("/none/b", "/list/1"):
        with pytest.raises(Invalid):
            apply_json_patch({"spec": {}, "list": [1]}, [operation | {"path": path}])


def test_successful_test_operation_changes_nothing() -> None:
    document = {"a": [1, {"b": True}]}
    assert apply_json_patch(document, [{"op": "test", "path": "/a/1/b", "value": True}]) == document


def test_true_does_not_equal_one() -> None:
    with pytest.raises(Invalid):
        apply_json_patch({"a": 1}, [{"op": "test", "path": "/a", "value": True}])


def test_patch_that_is_not_a_list_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="error decoding patch"):
        apply_json_patch({}, {"op": "add"})


def test_too_many_operations_are_rejected() -> None:
    with pytest.raises(TooLarge, match="is 10000, got 10001"):
        apply_json_patch({}, [{"op": "test", "path": "/a"}] * 10_001)


def test_total_size_of_copies_is_limited() -> None:
    grow = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 40
    with pytest.raises(Invalid):
        apply_json_patch({"a": ["x" * 1000]}, grow)


class CountingDict(dict):
    """Counts how often it is copied."""

    copies = 0

    def keys(self):
        CountingDict.copies += 1
        return super().keys()


def test_many_operations_copy_a_container_once() -> None:
    CountingDict.copies = 0
    document = {"spec": CountingDict({f"k{i}": i for i in range(1000)})}
    patch = [{"op": "add", "path": f"/spec/n{i}", "value": i} for i in range(10_000)]
    patched = apply_json_patch(document, patch)
    assert len(patched["spec"]) == 11_000
    assert len(document["spec"]) == 1000
    assert CountingDict.copies <= 1


def test_copied_value_and_its_source_change_independently() -> None:
    document = {"a": {"list": [{"x": 1}]}}
    patch = [
        {"op": "add", "path": "/a/list/-", "value": {"x": 2}},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "replace", "path": "/b/list/0/x", "value": 3},
        {"op": "replace", "path": "/a/list/1/x", "value": 4},
    ]
    assert apply_json_patch(document, patch) == {
        "a": {"list": [{"x": 1}, {"x": 4}]},
        "b": {"list": [{"x": 3}, {"x": 2}]},
    }
    assert document == {"a": {"list": [{"x": 1}]}}
    assert patch[0]["value"] == {"x": 2}


def test_copy_of_a_value_that_cannot_be_encoded_fails() -> None:
    wrap = [
        {"op": "add", "path": "/t", "value": {}},
        {"op": "move", "from": "/q", "path": "/t/a"},
        {"op": "move", "from": "/t", "path": "/q"},
    ]
    patch = [{"op": "add", "path": "/q", "value": 1}, *wrap * 1500, {"op": "copy", "from": "/q", "path": "/r"}]
    with pytest.raises(Invalid):
        apply_json_patch({}, patch)


def test_pointer_that_is_deeper_than_any_document_is_refused_before_it_is_split() -> None:
    document: dict[str, Any] = {}
    for _ in range(201):
        document = {"a": document}
    with pytest.raises(Invalid):
        apply_json_patch(document, [{"op": "add", "path": "/a" * 201, "value": 1}])
