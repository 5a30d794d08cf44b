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
