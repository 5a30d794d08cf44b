"""Defaulting and validation of WorkloadRebalancers."""

from collections.abc import Iterator

from trimtab.api.admission.disruption import check_count_or_percent
from trimtab.api.cron import check_schedule
from trimtab.api.field_errors import forbidden, invalid, required
from trimtab.api.kind import find_kind
from trimtab.api.kinds.native.rules.common import check_selector
from trimtab.api.paths import indexed_objects, object_at, value_at, with_value
from trimtab.api.value import Raw
from trimtab.errors import Cause


def fill_rebalancer(rebalancer: Raw) -> Raw:
    """Translates upstream's `reschedule.preserveAvailableReplicas` to the strategy PreserveAvailable."""
    if value_at(rebalancer, "spec", "reschedule", "preserveAvailableReplicas") is True:
        return with_value(rebalancer, "PreserveAvailable", "spec", "strategy")
    return rebalancer


def check_rebalancer(rebalancer: Raw, old: Raw | None) -> list[Cause]:
    workloads, selectors = value_at(rebalancer, "spec", "workloads"), value_at(rebalancer, "spec", "selectors")
    causes = []
    if workloads is None and not selectors:
        causes.append(required("spec.workloads"))
    elif workloads == [] and not selectors:
        detail = "spec.workloads in body should have at least 1 items"
        causes.append(invalid("spec.workloads", 0, detail))
    for i, workload in indexed_objects(workloads):
        causes.extend(
            invalid(f"spec.workloads[{i}].{key}", "", "must not be empty")
            for key in ("apiVersion", "kind", "name")
            if workload.get(key) == ""
        )
    for i, rule in indexed_objects(selectors):
        field = f"spec.selectors[{i}]"
        causes.extend(
            invalid(f"{field}.{key}", "", "must not be empty") for key in ("apiVersion", "kind") if rule.get(key) == ""
        )
        causes.extend(check_selector(object_at(rule, "labelSelector"), f"{field}.labelSelector"))
    causes.extend(check_count_or_percent(value_at(rebalancer, "spec", "move", "maxSurge"), "spec.move.maxSurge"))
    causes.extend(_check_schedule(object_at(rebalancer, "spec")))
    return causes


def _check_schedule(spec: Raw) -> Iterator[Cause]:
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone") or ""
    if schedule:
        yield from check_schedule(str(schedule), str(zone), "spec")
        if spec.get("ttlSecondsAfterFinished") is not None:
            yield forbidden("spec.ttlSecondsAfterFinished", "must not be set together with schedule")
    elif zone:
        yield forbidden("spec.timeZone", "must not be set without schedule")


def check_workload_namespaces(rebalancer: Raw, old: Raw | None) -> list[Cause]:
    """A workload must have a namespace exactly when its kind is namespaced, where the kind is known."""
    causes = []
    for i, workload in indexed_objects(value_at(rebalancer, "spec", "workloads")):
        kind = find_kind(str(workload.get("apiVersion", "")), str(workload.get("kind", "")))
        field, namespace = f"spec.workloads[{i}].namespace", workload.get("namespace") or ""
        if kind is not None and kind.namespaced and not namespace:
            causes.append(required(field, f"{kind.name} is namespaced"))
        elif kind is not None and not kind.namespaced and namespace:
            causes.append(invalid(field, namespace, f"{kind.name} is cluster-scoped"))
    return causes
