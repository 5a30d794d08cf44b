"""Validation of ClusterTaintPolicies, as in Karmada's webhook."""

from collections.abc import Iterator

from trimtab.api.admission.placement import check_affinity
from trimtab.api.field_errors import duplicate, forbidden, invalid, not_supported
from trimtab.api.names import label_value_faults, qualified_name_faults
from trimtab.api.paths import indexed_objects, object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause


def check_taint_policy(policy: Raw, old: Raw | None, *, allow_no_execute: bool = False) -> list[Cause]:
    """`allow_no_execute`: taints that evict workloads are allowed."""
    spec = object_at(policy, "spec")
    causes = list(check_affinity(object_at(spec, "targetClusters"), "spec.targetClusters"))
    seen: set[tuple[str, str]] = set()
    for i, taint in indexed_objects(spec.get("taints")):
        field, key, effect = f"spec.taints[{i}]", str(taint.get("key", "")), str(taint.get("effect", ""))
        causes.extend(_check_taint(taint, field, allow_no_execute=allow_no_execute))
        if (key, effect) in seen:
            causes.append(duplicate(field, taint))
        seen.add((key, effect))
    return causes


def _check_taint(taint: Raw, field: str, *, allow_no_execute: bool) -> Iterator[Cause]:
    key, value, effect = (str(taint.get(name) or "") for name in ("key", "value", "effect"))
    for fault in qualified_name_faults(key):
        yield invalid(f"{field}.key", key, fault)
    for fault in label_value_faults(value):
        yield invalid(f"{field}.value", value, fault)
    if effect == "NoExecute":
        if allow_no_execute:
            return
        yield forbidden(f"{field}.effect", "NoExecute taints need evictions by taint policies to be allowed")
    elif effect != "NoSchedule":
        yield not_supported(f"{field}.effect", effect, ("NoSchedule",))
