"""Table columns of WorkloadRebalancers."""

from datetime import UTC, datetime
from typing import Any

import pytest

from trimtab.server.printers.rebalancer_columns import REBALANCER_COLUMNS, rebalancer_state

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def cells_of(**parts: Any) -> dict[str, Any]:
    obj = {"metadata": {"name": "x", "creationTimestamp": "2030-01-01T11:00:00Z"}, **parts}
    headers = [header.name for header in REBALANCER_COLUMNS.headers]
    return dict(zip(headers, REBALANCER_COLUMNS.cells(obj, NOON), strict=True))


def test_workloads_are_counted_by_phase() -> None:
    phases = ("Done", "NoChange", "Moving", "Blocked", "Pending", "Failed")
    cells = cells_of(status={"observedWorkloads": [*({"phase": phase} for phase in phases), {"result": "Failed"}]})
    assert (cells["Done"], cells["Moving"], cells["Blocked"], cells["Age"]) == ("2/7", 1, 3, "60m")
    assert (cells["Strategy"], cells["Schedule"], cells["Next"]) == ("Fresh", "<none>", "<none>")


@pytest.mark.parametrize(
    ("spec", "status", "state"),
    [
        ({}, {}, "Running"),
        ({"suspend": True}, {}, "Suspended"),
        ({"cancel": True}, {}, "Cancelling"),
        ({"cancel": True}, {"finishTime": "2030-01-01T11:00:00Z"}, "Cancelled"),
        ({}, {"finishTime": "2030-01-01T11:00:00Z"}, "Finished"),
        ({}, {"finishTime": "2030-01-01T11:00:00Z", "observedWorkloads": [{"phase": "Failed"}]}, "Failed"),
        ({}, {"conditions": [{"type": "Stalled", "status": "True"}]}, "Stalled"),
        ({"schedule": "0 3 * * *"}, {}, "Scheduled"),
        ({"schedule": "0 3 * * *"}, {"lastScheduleTime": "2030-01-01T03:00:00Z"}, "Running"),
    ],
)
def test_state_is_one_word(spec: dict[str, Any], status: dict[str, Any], state: str) -> None:
    assert rebalancer_state({"spec": spec, "status": status}) == state


def test_object_without_fields_is_printed() -> None:
    assert cells_of()["Done"] == "0/0"
