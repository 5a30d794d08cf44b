from typing import Any

import pytest

from interpret.overrides.override_helpers import apply_policy, deployment, plaintext
from trimtab.interpret.overrides.override_patch import (
    InvalidPatch,
    PatchOperation,
    apply_patch,
    escape_pointer_segment,
    value_at_pointer,
)
from trimtab.interpret.overrides.overrides import OverrideError


@pytest.mark.parametrize(
    ("path", "operator", "cause"),
    [
        (
            "/spec/nope",
            "remove",
            "error in remove for path: '/spec/nope': unable to remove nonexistent key: nope: missing value",
        ),
        ("/spec/nope", "replace", "replace operation does not apply: doc is missing key: /spec/nope: missing value"),
        ("/spec/no/x", "replace", "replace operation does not apply: doc is missing path: /spec/no/x: missing value"),
        (
            "/metadata/annotations/x",
            "add",
            'add operation does not apply: doc is missing path: "/metadata/annotations/x": missing value',
        ),
        (
            "/spec/template/spec/containers/7",
            "add",
            (
                "error in add for path: '/spec/template/spec/containers/7': "
                "Unable to access invalid index: 7: invalid index referenced"
            ),
        ),
        (
            "/spec/template/spec/containers/x",
            "add",
            (
                "error in add for path: '/spec/template/spec/containers/x': "
                "value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax"
            ),
        ),
        ("spec", "add", 'add operation does not apply: doc is missing path: "spec": missing value'),
        ("/spec", "move", "the operator 'move' is none of add, remove, replace"),
    ],
)
def test_failed_patch_names_policy_and_path(path: str, operator: str, cause: str) -> None:
    with pytest.raises(OverrideError) as raised:
        apply_policy(deployment(), plaintext=plaintext(path, operator, "v"))
    assert raised.value.rule.policy == "ns/op"
    assert raised.value.cause == cause


def test_operations_are_applied_in_order_to_a_copy() -> None:
    document: dict[str, Any] = {"a": 1}
    operations = [PatchOperation("add", "/b", 2), PatchOperation("replace", "/a", 3), PatchOperation("remove", "/b")]
    assert apply_patch(document, operations) == {"a": 3}
    assert document == {"a": 1}


def test_escaped_key_is_found_by_its_pointer() -> None:
    assert value_at_pointer({"a/b~c": [7]}, f"/{escape_pointer_segment('a/b~c')}/0") == 7


@pytest.mark.parametrize("path", ["a", "/b", "/a/1"])
def test_missing_pointer_is_an_error(path: str) -> None:
    with pytest.raises(InvalidPatch):
        value_at_pointer({"a": [0]}, path)
