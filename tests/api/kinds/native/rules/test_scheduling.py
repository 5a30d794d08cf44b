import pytest

from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

PRIORITY_CLASS: Raw = {"metadata": {"name": "p"}, "value": 10}


def test_valid_priority_class_is_accepted_on_create_and_update() -> None:
    assert validation_error("scheduling.k8s.io/v1", "PriorityClass", PRIORITY_CLASS) == ""
    assert validation_error("scheduling.k8s.io/v1", "PriorityClass", PRIORITY_CLASS, PRIORITY_CLASS) == ""


def test_value_above_the_limit_for_users_is_rejected() -> None:
    too_high = with_change(PRIORITY_CLASS, "value", to=2_000_000_000)
    assert validation_error("scheduling.k8s.io/v1", "PriorityClass", too_high) == (
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"
    )


def test_value_is_immutable() -> None:
    changed = with_change(PRIORITY_CLASS, "value", to=11)
    assert validation_error("scheduling.k8s.io/v1", "PriorityClass", changed, PRIORITY_CLASS) == (
        "value: Forbidden: may not be changed in an update."
    )


def test_system_prefix_is_reserved_for_known_classes() -> None:
    known = {"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000}
    assert validation_error("scheduling.k8s.io/v1", "PriorityClass", known) == ""
    unknown = with_change(PRIORITY_CLASS, "metadata", "name", to="system-x")
    assert validation_error("scheduling.k8s.io/v1", "PriorityClass", unknown) == (
        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
        "error: system-x is not a known system priority class"
    )


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"handler": "runc", "overhead": {"podFixed": {"cpu": "1"}}}, ""),
        ({"handler": "A_"}, 'handler: Invalid value: "A_": a lowercase RFC 1123 label'),
        (
            {"handler": "x", "overhead": {"podFixed": {"cpu": "-1"}}},
            'overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            {"handler": "x", "scheduling": {"nodeSelector": {"A b": "c"}}},
            'scheduling.nodeSelector: Invalid value: "A b"',
        ),
        (
            {"handler": "x", "scheduling": {"tolerations": [{"key": "a", "operator": "Bad"}]}},
            'scheduling.tolerations.tolerations[0].operator: Unsupported value: "Bad"',
        ),
    ],
)
def test_runtime_classes_are_checked(fields: Raw, error: str) -> None:
    found = validation_error("node.k8s.io/v1", "RuntimeClass", {"metadata": {"name": "r"}, **fields})
    assert found.startswith(error)
    assert bool(found) == bool(error)


def test_handler_of_a_runtime_class_does_not_change() -> None:
    old, new = ({"metadata": {"name": "r"}, "handler": name} for name in ("x", "y"))
    error = 'handler: Invalid value: "y": field is immutable'
    assert validation_error("node.k8s.io/v1", "RuntimeClass", new, old) == error
