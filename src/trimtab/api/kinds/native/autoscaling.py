"""Horizontal pod autoscalers, and their older form that `kubectl autoscale` still sends."""

from trimtab.api.kind import OtherVersion, kind
from trimtab.api.kinds.native import defaults
from trimtab.api.kinds.native.rules import others
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


_SPEC_KEPT = ("scaleTargetRef", "minReplicas", "maxReplicas")
_STATUS_KEPT = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")


def _cpu(metric: Raw) -> bool:
    return metric.get("type") == "Resource" and metric.get("resource", {}).get("name") == "cpu"


def _to_stored(raw: Raw) -> Raw:
    """From v1: the one CPU target becomes a metric."""
    spec, status = raw.get("spec", {}), raw.get("status", {})
    wanted = {key: spec[key] for key in _SPEC_KEPT if key in spec}
    seen: Raw = {key: status[key] for key in _STATUS_KEPT if key in status}
    if (target := spec.get("targetCPUUtilizationPercentage")) is not None:
        goal = {"type": "Utilization", "averageUtilization": target}
        wanted["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": goal}}]
    if (current := status.get("currentCPUUtilizationPercentage")) is not None:
        value = {"averageUtilization": current}
        seen["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": value}}]
    return {**raw, "spec": wanted, "status": {"desiredReplicas": 0, "currentMetrics": None, **seen}}


def _from_stored(raw: Raw) -> Raw:
    """To v1: only the CPU metric can be told."""
    spec, status = raw.get("spec", {}), raw.get("status", {})
    wanted = {key: spec[key] for key in _SPEC_KEPT if key in spec}
    seen = {key: status[key] for key in _STATUS_KEPT if key in status}
    for metric in filter(_cpu, spec.get("metrics") or ()):
        goal = metric["resource"].get("target", {}).get("averageUtilization")
        if goal is not None:
            wanted["targetCPUUtilizationPercentage"] = goal
    for metric in filter(_cpu, status.get("currentMetrics") or ()):
        current = metric["resource"].get("current", {}).get("averageUtilization")
        if current is not None:
            seen["currentCPUUtilizationPercentage"] = current
    return {**raw, "spec": wanted, "status": {"currentReplicas": 0, "desiredReplicas": 0, **seen}}


@kind(
    group="autoscaling",
    version="v2",
    other_versions={"v1": OtherVersion(from_stored=_from_stored, to_stored=_to_stored)},
    plural="horizontalpodautoscalers",
    short=["hpa"],
    categories=["all"],
    status=True,
    custom=False,
    defaults=[defaults.autoscaler],
    validators=[others.check_autoscaler],
)
class HorizontalPodAutoscaler(Object):
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()
