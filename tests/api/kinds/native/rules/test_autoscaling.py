import pytest

from api.kinds.native.native_validation import validation_error, with_change
from trimtab.api.value import Raw

AUTOSCALER: Raw = {
    "metadata": {"name": "h"},
    "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "w"}},
}


def test_valid_autoscaler_is_accepted_on_create_and_update() -> None:
    assert validation_error("autoscaling/v2", "HorizontalPodAutoscaler", AUTOSCALER) == ""
    assert validation_error("autoscaling/v2", "HorizontalPodAutoscaler", AUTOSCALER, AUTOSCALER) == ""


def test_minimum_above_maximum_is_rejected() -> None:
    autoscaler = with_change(AUTOSCALER, "spec", "minReplicas", to=5)
    assert validation_error("autoscaling/v2", "HorizontalPodAutoscaler", autoscaler) == (
        "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"
    )


def test_scaling_to_zero_needs_an_object_or_external_metric() -> None:
    autoscaler = with_change(AUTOSCALER, "spec", "minReplicas", to=0)
    assert validation_error("autoscaling/v2", "HorizontalPodAutoscaler", autoscaler) == (
        "[spec.minReplicas: Invalid value: 0: must be greater than or equal to 1, spec.metrics: Forbidden: must specify "
        "at least one Object or External metric to support scaling to zero replicas]"
    )


def test_target_needs_kind_and_name() -> None:
    autoscaler = with_change(AUTOSCALER, "spec", "scaleTargetRef", to={})
    assert validation_error("autoscaling/v2", "HorizontalPodAutoscaler", autoscaler) == (
        "[spec.scaleTargetRef.kind: Required value, spec.scaleTargetRef.name: Required value]"
    )


WINDOW = {"scaleDown": {"stabilizationWindowSeconds": 9999}}
POLICY = {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 9999}]}}


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        (
            "metrics",
            [{"type": "Resource"}],
            "spec.metrics[0].resource: Required value: must populate information for the given metric source",
        ),
        ("metrics", [{"type": "Other"}], 'spec.metrics[0].type: Unsupported value: "Other"'),
        (
            "behavior",
            WINDOW,
            (
                "spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 9999: "
                "must be less than or equal to 3600"
            ),
        ),
        (
            "behavior",
            POLICY,
            (
                "[spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero, "
                "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 9999: must be less than or equal to 1800]"
            ),
        ),
        (
            "behavior",
            {"scaleUp": {"selectPolicy": "Other"}},
            'spec.behavior.scaleUp.selectPolicy: Unsupported value: "Other": supported values: "Disabled", "Max", "Min"',
        ),
    ],
)
def test_metrics_and_behavior_are_checked(field: str, value: object, error: str) -> None:
    autoscaler = with_change(AUTOSCALER, "spec", field, to=value)
    assert validation_error("autoscaling/v2", "HorizontalPodAutoscaler", autoscaler).startswith(error)
