"""What Karmada's webhook refuses in quotas and taint policies."""

from collections.abc import Iterator
from fractions import Fraction

from trimtab.api import quantity
from trimtab.api.admission.placement import check_affinity
from trimtab.api.admission.raw import at, mapping, objects
from trimtab.api.field_errors import duplicate, forbidden, invalid, not_supported
from trimtab.api.names import label_faults, label_value_faults, qualified_name_faults
from trimtab.api.value import Raw
from trimtab.errors import Cause

_LONGEST_NAME = 63


def check_taint_policy(policy: Raw, old: Raw | None) -> list[Cause]:
    spec = mapping(policy.get("spec"))
    causes = list(check_affinity(mapping(spec.get("targetClusters")), "spec.targetClusters"))
    seen: set[tuple[str, str]] = set()
    for i, taint in objects(spec.get("taints")):
        field, key, effect = f"spec.taints[{i}]", str(taint.get("key", "")), str(taint.get("effect", ""))
        causes.extend(_check_taint(taint, field))
        if (key, effect) in seen:
            causes.append(duplicate(field, taint))
        seen.add((key, effect))
    return causes


def _check_taint(taint: Raw, field: str) -> Iterator[Cause]:
    key, value, effect = (str(taint.get(name) or "") for name in ("key", "value", "effect"))
    for fault in qualified_name_faults(key):
        yield invalid(f"{field}.key", key, fault)
    for fault in label_value_faults(value):
        yield invalid(f"{field}.value", value, fault)
    if effect == "NoExecute":
        yield forbidden(f"{field}.effect", "NoExecute taints need evictions by taint policies to be allowed")
    elif effect != "NoSchedule":
        yield not_supported(f"{field}.effect", effect, ("NoSchedule",))


def check_quota(quota: Raw, old: Raw | None) -> list[Cause]:
    name, overall = str(at(quota, "metadata", "name") or ""), mapping(at(quota, "spec", "overall"))
    causes: list[Cause] = []
    if len(name) > _LONGEST_NAME:
        causes.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
    sums: dict[str, Fraction] = {}
    for i, assignment in objects(at(quota, "spec", "staticAssignments")):
        field = f"spec.staticAssignments[{i}]"
        cluster = str(assignment.get("clusterName", ""))
        causes.extend(invalid(f"{field}.clusterName", cluster, fault) for fault in label_faults(cluster))
        for resource, amount in mapping(assignment.get("hard")).items():
            if resource not in overall:
                causes.append(invalid(f"{field}.hard.{resource}", resource, "resource is not in overall"))
            sums[resource] = sums.get(resource, Fraction(0)) + _amount(amount)
    for resource, limit in overall.items():
        field = f"spec.overall.{resource}"
        if _amount(limit) < 0:
            causes.append(invalid(field, limit, "must be greater than or equal to 0"))
        if sums.get(resource, Fraction(0)) > _amount(limit):
            causes.append(invalid(field, limit, "overall is less than the sum of staticAssignments"))
    return causes


def _amount(text: object) -> Fraction:
    """The amount; what is no quantity counts nothing here, since the schema refuses it."""
    try:
        return quantity.parse(text if isinstance(text, str | int | float) else "0")
    except quantity.BadQuantity:
        return Fraction(0)
