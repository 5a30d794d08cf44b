"""Validation of FederatedResourceQuotas, as in Karmada's webhook."""

from fractions import Fraction

from trimtab.api import quantity
from trimtab.api.field_errors import invalid
from trimtab.api.names import label_faults
from trimtab.api.paths import dig, indexed_objects, table
from trimtab.api.value import Raw
from trimtab.errors import Cause

_LONGEST_NAME = 63


def check_quota(quota: Raw, old: Raw | None) -> list[Cause]:
    name, overall = str(dig(quota, "metadata", "name") or ""), table(quota, "spec", "overall")
    causes: list[Cause] = []
    if len(name) > _LONGEST_NAME:
        causes.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
    sums: dict[str, Fraction] = {}
    for i, assignment in indexed_objects(dig(quota, "spec", "staticAssignments")):
        field = f"spec.staticAssignments[{i}]"
        cluster = str(assignment.get("clusterName", ""))
        causes.extend(invalid(f"{field}.clusterName", cluster, fault) for fault in label_faults(cluster))
        for resource, amount in table(assignment, "hard").items():
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
    """The amount; invalid quantities count as 0 here, because the schema rejects them."""
    try:
        return quantity.parse(text if isinstance(text, str | int | float) else "0")
    except quantity.BadQuantity:
        return Fraction(0)
