"""What kube-apiserver rejects in HorizontalPodAutoscalers."""

from collections.abc import Sequence

from trimtab.api.field_errors import forbidden, invalid, required
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause


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
    return found
