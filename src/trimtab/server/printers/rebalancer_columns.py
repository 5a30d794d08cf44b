"""Table columns of WorkloadRebalancers: a state and counts, which the JSON paths of a CRD cannot compute.

The CRD has the columns of Karmada, which is only the age. See docs/decisions/moving.md.
"""

from datetime import datetime
from typing import Any

from trimtab.api.value import Raw
from trimtab.server.printers.cells import NONE, ColumnSet, object_age, object_name, parse_headers

KIND = "workloadrebalancers.apps.karmada.io"
DONE = ("Done", "NoChange")


def rebalancer_state(obj: Raw) -> str:
    """What the rebalancer does now, in a word."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    conditions = {one.get("type"): one.get("status") for one in status.get("conditions") or ()}
    if status.get("finishTime"):
        failed = any(one.get("phase") == "Failed" for one in status.get("observedWorkloads") or ())
        return "Cancelled" if spec.get("cancel") else "Failed" if failed else "Finished"
    if spec.get("cancel"):
        return "Cancelling"
    if spec.get("suspend"):
        return "Suspended"
    if conditions.get("Stalled") == "True":
        return "Stalled"
    return "Scheduled" if spec.get("schedule") and not status.get("lastScheduleTime") else "Running"


def _rebalancer_cells(obj: Raw, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    observed = status.get("observedWorkloads") or ()
    phases = [one.get("phase") or ("Failed" if one.get("result") == "Failed" else "Pending") for one in observed]
    return [
        object_name(obj),
        rebalancer_state(obj),
        f"{sum(phase in DONE for phase in phases)}/{len(phases)}",
        sum(phase == "Moving" for phase in phases),
        sum(phase in ("Blocked", "Failed") for phase in phases),
        object_age(obj, now),
        spec.get("strategy") or "Fresh",
        spec.get("schedule") or NONE,
        status.get("nextScheduleTime") or NONE,
    ]


REBALANCER_COLUMNS = ColumnSet(
    parse_headers("Name|State|Done|Moving#|Blocked#|Age|Strategy*|Schedule*|Next*"), _rebalancer_cells
)
