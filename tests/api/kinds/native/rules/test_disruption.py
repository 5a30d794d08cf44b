import pytest

from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

BUDGET: Raw = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {}}}


def test_valid_budget_is_accepted_on_create_and_update() -> None:
    assert validation_error("policy/v1", "PodDisruptionBudget", BUDGET) == ""
    assert validation_error("policy/v1", "PodDisruptionBudget", BUDGET, BUDGET) == ""


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        (
            "maxUnavailable",
            1,
            (
                'spec: Invalid value: {"MinAvailable":1,"Selector":{},"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: '
                "minAvailable and maxUnavailable cannot be both set"
            ),
        ),
        ("minAvailable", -1, "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"),
        ("minAvailable", "101%", 'spec.minAvailable: Invalid value: "101%": must not be greater than 100%'),
        (
            "unhealthyPodEvictionPolicy",
            "Never",
            (
                'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", '
                '"IfHealthyBudget"'
            ),
        ),
    ],
)
def test_invalid_fields_are_rejected(field: str, value: int | str, error: str) -> None:
    budget = with_change(BUDGET, "spec", field, to=value)
    assert validation_error("policy/v1", "PodDisruptionBudget", budget) == error
