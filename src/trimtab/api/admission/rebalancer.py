"""What is refused in a request to rebalance."""

from collections.abc import Iterator

from trimtab.api.admission.disruption import check_share
from trimtab.api.admission.raw import at, mapping, objects, put
from trimtab.api.cron import check_timetable
from trimtab.api.field_errors import forbidden, invalid, required
from trimtab.api.kind import find_kind
from trimtab.api.kinds.native.rules.common import selector
from trimtab.api.value import Raw
from trimtab.errors import Cause


def fill_rebalancer(rebalancer: Raw) -> Raw:
    """Upstream's spelling of the strategy counts unless ours says otherwise."""
    if at(rebalancer, "spec", "reschedule", "preserveAvailableReplicas") is True:
        return put(rebalancer, ("spec", "strategy"), "PreserveAvailable")
    return rebalancer


def check_rebalancer(rebalancer: Raw, old: Raw | None) -> list[Cause]:
    workloads, selectors = at(rebalancer, "spec", "workloads"), at(rebalancer, "spec", "selectors")
    causes = []
    if workloads is None and not selectors:
        causes.append(required("spec.workloads"))
    elif workloads == [] and not selectors:
        why = "spec.workloads in body should have at least 1 items"
        causes.append(invalid("spec.workloads", 0, why))
    for i, workload in objects(workloads):
        causes.extend(
            invalid(f"spec.workloads[{i}].{key}", "", "must not be empty")
            for key in ("apiVersion", "kind", "name")
            if workload.get(key) == ""
        )
    for i, rule in objects(selectors):
        field = f"spec.selectors[{i}]"
        causes.extend(
            invalid(f"{field}.{key}", "", "must not be empty") for key in ("apiVersion", "kind") if rule.get(key) == ""
        )
        causes.extend(selector(mapping(rule.get("labelSelector")), f"{field}.labelSelector"))
    causes.extend(check_share(at(rebalancer, "spec", "move", "maxSurge"), "spec.move.maxSurge"))
    causes.extend(_check_schedule(mapping(rebalancer.get("spec"))))
    return causes


def _check_schedule(spec: Raw) -> Iterator[Cause]:
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone") or ""
    if schedule:
        yield from check_timetable(str(schedule), str(zone), "spec")
        if spec.get("ttlSecondsAfterFinished") is not None:
            yield forbidden("spec.ttlSecondsAfterFinished", "a rebalancer with a schedule does not finish")
    elif zone:
        yield forbidden("spec.timeZone", "only a schedule has a time zone")


def check_namespaces(rebalancer: Raw, old: Raw | None) -> list[Cause]:
    """A workload has a namespace exactly when its kind does, where the kind is known."""
    causes = []
    for i, workload in objects(at(rebalancer, "spec", "workloads")):
        kind = find_kind(str(workload.get("apiVersion", "")), str(workload.get("kind", "")))
        field, namespace = f"spec.workloads[{i}].namespace", workload.get("namespace") or ""
        if kind is not None and kind.namespaced and not namespace:
            causes.append(required(field, f"a {kind.name} lives in a namespace"))
        elif kind is not None and not kind.namespaced and namespace:
            causes.append(invalid(field, namespace, f"a {kind.name} lives in no namespace"))
    return causes
