from trimtab.api.kind import find_kind, kind_of
from trimtab.api.kinds.native.autoscaling import HorizontalPodAutoscaler
from trimtab.api.value import Raw

V1: Raw = {
    "apiVersion": "autoscaling/v1",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {
        "scaleTargetRef": {"kind": "Deployment", "name": "web"},
        "maxReplicas": 4,
        "targetCPUUtilizationPercentage": 80,
    },
    "status": {"currentReplicas": 0, "desiredReplicas": 0},
}


def test_kind_is_found_in_both_versions() -> None:
    autoscaler = find_kind("autoscaling/v1", "HorizontalPodAutoscaler")
    assert autoscaler is not None
    assert autoscaler is find_kind("autoscaling/v2", "HorizontalPodAutoscaler")


def test_cpu_target_survives_conversion_to_v2_and_back() -> None:
    autoscaler = kind_of(HorizontalPodAutoscaler)
    converted = autoscaler.convert(V1, "v2")
    assert converted["spec"]["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}
    assert autoscaler.convert(converted, "v1") == V1


def test_current_cpu_utilization_survives_conversion_to_v2_and_back() -> None:
    autoscaler = kind_of(HorizontalPodAutoscaler)
    observed = {**V1, "status": {**V1["status"], "currentCPUUtilizationPercentage": 60}}
    converted = autoscaler.convert(observed, "v2")
    assert converted["status"]["currentMetrics"][0]["resource"]["current"] == {"averageUtilization": 60}
    assert autoscaler.convert(converted, "v1") == observed


def test_v1_omits_metrics_other_than_cpu() -> None:
    autoscaler = kind_of(HorizontalPodAutoscaler)
    memory = {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}
    stored = autoscaler.convert(V1, "v2")
    stored["spec"]["metrics"] = [{"type": "Resource", "resource": memory}]
    assert "targetCPUUtilizationPercentage" not in autoscaler.convert(stored, "v1")["spec"]
