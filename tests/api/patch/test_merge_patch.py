from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.api.patch.json_patch import json_equal
from trimtab.api.patch.merge_patch import apply_merge_patch, create_merge_patch
from trimtab.errors import BadRequest

values = st.recursive(
    st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


def test_null_deletes_and_lists_are_replaced() -> None:
    document = {"data": {"k": "v", "n": "1"}, "list": [1, 2]}
    patched = apply_merge_patch(document, {"data": {"k": None, "m": "2"}, "list": [3]})
    assert patched == {"data": {"n": "1", "m": "2"}, "list": [3]}
    assert document == {"data": {"k": "v", "n": "1"}, "list": [1, 2]}


def test_nulls_of_a_new_map_are_dropped() -> None:
    assert apply_merge_patch({}, {"a": {"b": None, "c": 1}}) == {"a": {"c": 1}}


def test_patch_that_is_not_an_object_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="invalid JSON patch"):
        apply_merge_patch({}, [1])


@settings(max_examples=150, deadline=None)
@given(documents, documents)
def test_created_patch_turns_one_document_into_the_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    patch = create_merge_patch(one, other)
    assert apply_merge_patch(one, patch) == other
    assert (patch == {}) == json_equal(one, other)
