import pytest

from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

NODE: Raw = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}}


def test_valid_node_is_accepted_on_create_and_update() -> None:
    assert validation_error("v1", "Node", NODE) == ""
    assert validation_error("v1", "Node", NODE, NODE) == ""


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("effect", None, "metadata.taints[0].effect: Required value"),
        (
            "effect",
            "Never",
            (
                'metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", '
                '"NoExecute"'
            ),
        ),
        ("key", "a b", 'metadata.taints[0].key: Invalid value: "a b": name part must consist of'),
        ("value", "a b", 'metadata.taints[0].value: Invalid value: "a b": a valid label must be'),
    ],
)
def test_invalid_taints_are_rejected(field: str, value: str | None, error: str) -> None:
    node = with_change(NODE, "spec", "taints", 0, field, to=value)
    assert validation_error("v1", "Node", node).startswith(error)


def test_taints_must_be_unique_by_key_and_effect() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    other_effect = with_change(NODE, "spec", "taints", to=[taint, {**taint, "effect": "NoExecute"}])
    assert validation_error("v1", "Node", other_effect) == ""
    assert validation_error("v1", "Node", with_change(NODE, "spec", "taints", to=[taint, taint])) == (
        'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
        "taints must be unique by key and effect pair"
    )
