import pytest

from trimtab.api.patch.merge_patch import apply_merge_patch
from trimtab.errors import BadRequest


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
