"""What is refused in a request to rebalance."""

from trimtab.api.admission.raw import at, objects, put
from trimtab.api.complaints import invalid, required
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
    return causes
