"""HorizontalPodAutoscalers in v2, and the conversion from and to v1, which `kubectl autoscale` still sends."""

from trimtab.api.kind import OtherVersion, kind
from trimtab.api.kinds.native.defaults import workloads as workloads_defaults
from trimtab.api.kinds.native.rules import autoscaling
from trimtab.api.value import Object, Raw, Value


class CrossVersionObjectReference(Value):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class HorizontalPodAutoscalerSpec(Value):
    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: int | None = None
    max_replicas: int = 0


class HorizontalPodAutoscalerStatus(Value):
    observed_generation: int | None = None
    current_replicas: int = 0
    desired_replicas: int = 0


_SHARED_SPEC_FIELDS = ("scaleTargetRef", "minReplicas", "maxReplicas")
_SHARED_STATUS_FIELDS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")


def _is_cpu_metric(metric: Raw) -> bool:
    return metric.get("type") == "Resource" and metric.get("resource", {}).get("name") == "cpu"


def _from_v1(raw: Raw) -> Raw:
    """Convert from v1: the one CPU target becomes a metric."""
    spec, status = raw.get("spec", {}), raw.get("status", {})
    new_spec = {key: spec[key] for key in _SHARED_SPEC_FIELDS if key in spec}
    new_status: Raw = {key: status[key] for key in _SHARED_STATUS_FIELDS if key in status}
    if (target := spec.get("targetCPUUtilizationPercentage")) is not None:
        cpu_target = {"type": "Utilization", "averageUtilization": target}
        new_spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": cpu_target}}]
    if (current := status.get("currentCPUUtilizationPercentage")) is not None:
        value = {"averageUtilization": current}
        new_status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": value}}]
    return {**raw, "spec": new_spec, "status": {"desiredReplicas": 0, "currentMetrics": None, **new_status}}


def _to_v1(raw: Raw) -> Raw:
    """Convert to v1, which can express the CPU metric only."""
    spec, status = raw.get("spec", {}), raw.get("status", {})
    new_spec = {key: spec[key] for key in _SHARED_SPEC_FIELDS if key in spec}
    new_status = {key: status[key] for key in _SHARED_STATUS_FIELDS if key in status}
    for metric in filter(_is_cpu_metric, spec.get("metrics") or ()):
        cpu_target = metric["resource"].get("target", {}).get("averageUtilization")
        if cpu_target is not None:
            new_spec["targetCPUUtilizationPercentage"] = cpu_target
    for metric in filter(_is_cpu_metric, status.get("currentMetrics") or ()):
        current = metric["resource"].get("current", {}).get("averageUtilization")
        if current is not None:
            new_status["currentCPUUtilizationPercentage"] = current
    return {**raw, "spec": new_spec, "status": {"currentReplicas": 0, "desiredReplicas": 0, **new_status}}


@kind(
    group="autoscaling",
    version="v2",
    other_versions={"v1": OtherVersion(from_stored=_to_v1, to_stored=_from_v1)},
    plural="horizontalpodautoscalers",
    short=["hpa"],
    categories=["all"],
    status=True,
    custom=False,
    defaults=[workloads_defaults.autoscaler],
    validators=[autoscaling.check_horizontal_pod_autoscaler],
)
class HorizontalPodAutoscaler(Object):
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()
