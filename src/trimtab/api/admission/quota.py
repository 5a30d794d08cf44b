"""Validation of FederatedResourceQuotas, as in Karmada's webhook."""

from fractions import Fraction

from trimtab.api import quantity
from trimtab.api.field_errors import invalid
from trimtab.api.names import label_faults
from trimtab.api.paths import indexed_objects, object_at, value_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_MAX_NAME_LENGTH = 63


def check_quota(quota: Raw, old: Raw | None) -> list[Cause]:
    name, overall = str(value_at(quota, "metadata", "name") or ""), object_at(quota, "spec", "overall")
    causes: list[Cause] = []
    if len(name) > _MAX_NAME_LENGTH:
        causes.append(invalid("metadata.name", name, f"must be no more than {_MAX_NAME_LENGTH} characters"))
    sums: dict[str, Fraction] = {}
    for i, assignment in indexed_objects(value_at(quota, "spec", "staticAssignments")):
        field = f"spec.staticAssignments[{i}]"
        cluster = str(assignment.get("clusterName", ""))
        causes.extend(invalid(f"{field}.clusterName", cluster, fault) for fault in label_faults(cluster))
        for resource, amount in object_at(assignment, "hard").items():
            if resource not in overall:
                causes.append(invalid(f"{field}.hard.{resource}", resource, "resource is not in overall"))
            sums[resource] = sums.get(resource, Fraction(0)) + _parse_amount(amount)
    for resource, limit in overall.items():
        field = f"spec.overall.{resource}"
        if _parse_amount(limit) < 0:
            causes.append(invalid(field, limit, "must be greater than or equal to 0"))
        if sums.get(resource, Fraction(0)) > _parse_amount(limit):
            causes.append(invalid(field, limit, "overall is less than the sum of staticAssignments"))
    return causes


def _parse_amount(text: object) -> Fraction:
    """The amount; invalid quantities count as 0 here, because the schema rejects them."""
    try:
        return quantity.parse_quantity(text if isinstance(text, str | int | float) else "0")
    except quantity.InvalidQuantity:
        return Fraction(0)
