"""Defaulting and validation of a policy's placement, as in Karmada's webhook."""

from collections.abc import Iterator
from typing import Any

from trimtab.api.admission.field_order import in_declared_order
from trimtab.api.field_errors import invalid, not_supported, too_many
from trimtab.api.names import qualified_name_faults
from trimtab.api.paths import indexed_objects, int_or_zero, map_objects_at, object_at, value_at, with_value
from trimtab.api.value import Raw
from trimtab.errors import Cause

MAX_AFFINITY_TERMS = 64
MAX_OVERFLOW_AFFINITIES = 32
MAX_SPREAD_CONSTRAINTS = 64
"""Limits that upstream does not have: a kube-apiserver bounds the cost of CEL rules, which depends on the number of items."""
_FIELD_KEYS = ("provider", "region", "zone")
_FIELD_OPERATORS = ("In", "NotIn")
_INLINE_FIELDS = ("labelSelector", "fieldSelector", "clusterNames", "exclude")


def fill_placement(placement: Raw) -> Raw:
    placement = map_objects_at(placement, ("spreadConstraints",), _fill_spread)
    scheduling = object_at(placement, "replicaScheduling")
    if scheduling.get("replicaSchedulingType") == "Divided" and not scheduling.get("replicaDivisionPreference"):
        placement = with_value(placement, "Weighted", "replicaScheduling", "replicaDivisionPreference")
    return placement


def _fill_spread(constraint: Raw) -> Raw:
    if not constraint.get("spreadByField") and not constraint.get("spreadByLabel"):
        constraint = {**constraint, "spreadByField": "cluster"}
    return constraint if constraint.get("minGroups") else {**constraint, "minGroups": 1}


def check_placement(placement: Raw, field: str) -> Iterator[Cause]:
    if placement.get("clusterAffinity") is not None and placement.get("clusterAffinities") is not None:
        yield invalid(field, in_declared_order(placement), "clusterAffinities cannot co-exist with clusterAffinity")
    yield from check_affinity(object_at(placement, "clusterAffinity"), f"{field}.clusterAffinity")
    yield from _check_terms(placement, f"{field}.clusterAffinities")
    yield from _check_spread(placement.get("spreadConstraints"), f"{field}.spreadConstraints")
    yield from _check_workload_affinity(object_at(placement, "workloadAffinity"), f"{field}.workloadAffinity")
    for i, toleration in indexed_objects(placement.get("clusterTolerations")):
        operator = toleration.get("operator", "")
        if operator not in ("", "Exists", "Equal"):
            yield not_supported(f"{field}.clusterTolerations[{i}].operator", operator, ("", "Exists", "Equal"))


def check_affinity(affinity: Raw, field: str) -> Iterator[Cause]:
    """Reports only the first error of a field selector, as upstream does."""
    selector = affinity.get("fieldSelector")
    for _, rule in indexed_objects(value_at(selector, "matchExpressions")):
        key, operator = rule.get("key", ""), rule.get("operator", "")
        detail = ""
        if key not in _FIELD_KEYS:
            detail = f'unsupported key "{key}", must be provider, region, or zone'
        elif operator not in _FIELD_OPERATORS:
            detail = f'unsupported operator "{operator}", must be In or NotIn'
        if detail:
            yield invalid(f"{field}.fieldSelector", in_declared_order(selector), detail)
            return


def _check_terms(placement: Raw, field: str) -> Iterator[Cause]:
    terms = placement.get("clusterAffinities")
    if isinstance(terms, list) and len(terms) > MAX_AFFINITY_TERMS:
        yield too_many(field, len(terms), MAX_AFFINITY_TERMS)
    seen: set[str] = set()
    for i, term in indexed_objects(terms):
        name = str(term.get("affinityName", ""))
        for fault in qualified_name_faults(name):
            yield invalid(f"{field}[{i}]", name, fault)
        if name in seen:
            yield invalid(field, in_declared_order(terms), "each affinity term in a policy must have a unique name")
        seen.add(name)
        yield from check_affinity(term, f"{field}[{i}]")
        if term.get("overflowAffinities") is not None:
            yield from _check_overflow(
                term, object_at(placement, "replicaScheduling"), f"{field}[{i}].overflowAffinities"
            )


def _divides_by_capacity(scheduling: Raw) -> bool:
    if scheduling.get("replicaSchedulingType") != "Divided":
        return False
    preference = scheduling.get("replicaDivisionPreference")
    return preference == "Aggregated" or (
        preference == "Weighted" and bool(value_at(scheduling, "weightPreference", "dynamicWeight"))
    )


def _check_overflow(term: Raw, scheduling: Raw, field: str) -> Iterator[Cause]:
    overflow = term["overflowAffinities"]
    if isinstance(overflow, list) and len(overflow) > MAX_OVERFLOW_AFFINITIES:
        yield too_many(field, len(overflow), MAX_OVERFLOW_AFFINITIES)
    if not _divides_by_capacity(scheduling):
        detail = "overflowAffinities can only be used together with dynamic weight or aggregated scheduling"
        yield invalid(field, in_declared_order(overflow), detail)
    if not any(term.get(part) for part in _INLINE_FIELDS):
        yield invalid(
            field,
            in_declared_order(overflow),
            "overflowAffinities can only be used together with the inline ClusterAffinity",
        )
    taken = {term.get("affinityName", "")}
    for i, affinity in indexed_objects(overflow):
        name = str(affinity.get("affinityName", ""))
        for fault in qualified_name_faults(name):
            yield invalid(f"{field}[{i}].affinityName", name, fault)
        if name in taken:
            detail = "overflow affinity name must be unique and must not duplicate the primary group's affinityName"
            yield invalid(f"{field}[{i}].affinityName", name, detail)
        taken.add(name)
        yield from check_affinity(affinity, f"{field}[{i}]")


def _check_spread(constraints: Any, field: str) -> Iterator[Cause]:
    counts: dict[str, int] = {}
    if isinstance(constraints, list) and len(constraints) > MAX_SPREAD_CONSTRAINTS:
        yield too_many(field, len(constraints), MAX_SPREAD_CONSTRAINTS)
    for i, constraint in indexed_objects(constraints):
        by_field, where = str(constraint.get("spreadByField") or ""), f"{field}[{i}]"
        least, most = int_or_zero(constraint.get("minGroups")), int_or_zero(constraint.get("maxGroups"))
        if by_field and constraint.get("spreadByLabel"):
            yield invalid(where, in_declared_order(constraint), "spreadByLabel should not co-exist with spreadByField")
        if least < 0:
            yield invalid(where, in_declared_order(constraint), "minGroups lower than 0 is not allowed")
        if most < 0:
            yield invalid(where, in_declared_order(constraint), "maxGroups lower than 0 is not allowed")
        if 0 < most < least:
            yield invalid(where, in_declared_order(constraint), "maxGroups lower than minGroups is not allowed")
        if by_field:
            counts[by_field] = counts.get(by_field, 0) + 1
            if counts[by_field] == 2:  # reported once, however often the field is repeated
                yield invalid(
                    field, in_declared_order(constraints), f"multiple {by_field} spread constraints are not allowed"
                )
    if counts and "cluster" not in counts:
        detail = (
            "the cluster spread constraint must be enabled in one of the constraints "
            "in case of SpreadByField is enabled"
        )
        yield invalid(field, in_declared_order(constraints), detail)


def _check_workload_affinity(affinity: Raw, field: str) -> Iterator[Cause]:
    keys = {}
    for name in ("affinity", "antiAffinity"):
        if isinstance(affinity.get(name), dict):
            keys[name] = str(affinity[name].get("groupByLabelKey", ""))
            for fault in qualified_name_faults(keys[name]):
                yield invalid(f"{field}.{name}.groupByLabelKey", keys[name], fault)
    if len(keys) == 2 and keys["affinity"] == keys["antiAffinity"]:
        yield invalid(
            field, in_declared_order(affinity), "affinity and antiAffinity must not use the same groupByLabelKey"
        )
