"""What kube-apiserver rejects in HorizontalPodAutoscalers."""

from collections.abc import Iterator, Sequence

from trimtab.api.field_errors import forbidden, invalid, not_supported, required
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_METRIC_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_SELECTIONS = ("Disabled", "Max", "Min")
_POLICY_TYPES = ("Percent", "Pods")
_MAX_WINDOW_SECONDS, _MAX_PERIOD_SECONDS = 3600, 1800


def check_horizontal_pod_autoscaler(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    minimum, maximum = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    found: list[Cause] = []
    if minimum is not None and minimum < 1:
        found.append(invalid("spec.minReplicas", minimum, "must be greater than or equal to 1"))
    if maximum < 1:
        found.append(invalid("spec.maxReplicas", maximum, "must be greater than 0"))
    if minimum is not None and maximum < minimum:
        found.append(invalid("spec.maxReplicas", maximum, "must be greater than or equal to `minReplicas`"))
    target = object_at(spec, "scaleTargetRef")
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if minimum == 0 and not kinds & {"Object", "External"}:
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        found.append(forbidden("spec.metrics", text))
    found += (required(f"spec.scaleTargetRef.{name}") for name in ("kind", "name") if not target.get(name))
    for index, metric in enumerate(spec.get("metrics") or ()):
        found += _check_metric(metric, f"spec.metrics[{index}]")
    for name in ("scaleUp", "scaleDown"):
        if rules := object_at(spec, "behavior", name):
            found += _check_scaling_rules(rules, f"spec.behavior.{name}")
    return found


def _check_metric(metric: Raw, field: str) -> Iterator[Cause]:
    kind = metric.get("type") or ""
    if not kind:
        yield required(f"{field}.type", "must specify a metric source type")
    elif kind not in _METRIC_SOURCES:
        yield not_supported(f"{field}.type", kind, sorted(_METRIC_SOURCES))
    elif metric.get(_METRIC_SOURCES[kind]) is None:
        yield required(f"{field}.{_METRIC_SOURCES[kind]}", "must populate information for the given metric source")


def _check_scaling_rules(rules: Raw, field: str) -> Iterator[Cause]:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        yield invalid(f"{field}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    elif window is not None and window > _MAX_WINDOW_SECONDS:
        text = f"must be less than or equal to {_MAX_WINDOW_SECONDS}"
        yield invalid(f"{field}.stabilizationWindowSeconds", window, text)
    if (selected := rules.get("selectPolicy")) not in (None, *_SELECTIONS):
        yield not_supported(f"{field}.selectPolicy", selected, _SELECTIONS)
    if rules.get("policies") == []:
        yield required(f"{field}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.get("policies") or ()):
        where, value, period = f"{field}.policies[{index}]", policy.get("value", 0), policy.get("periodSeconds", 0)
        if policy.get("type") not in _POLICY_TYPES:
            yield not_supported(f"{where}.type", policy.get("type", ""), _POLICY_TYPES)
        if value <= 0:
            yield invalid(f"{where}.value", value, "must be greater than zero")
        if period <= 0:
            yield invalid(f"{where}.periodSeconds", period, "must be greater than zero")
        elif period > _MAX_PERIOD_SECONDS:
            yield invalid(f"{where}.periodSeconds", period, f"must be less than or equal to {_MAX_PERIOD_SECONDS}")
