"""Table columns of pods and workloads."""

from datetime import UTC, datetime

import pytest

from trimtab.server.printers.workload_columns import WORKLOAD_COLUMNS, pod_status

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "deleted", "text"),
    [
        ({"phase": "Running"}, False, "Running"),
        ({"phase": "Running"}, True, "Terminating"),
        ({"phase": "Succeeded"}, True, "Succeeded"),
        ({"phase": "Failed", "reason": "Evicted"}, False, "Evicted"),
        (
            {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePull"}}}]},
            False,
            "ImagePull",
        ),
        ({"phase": "Running", "containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]}, False, "ExitCode:2"),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}, False, "Init:0/0"),
    ],
)
def test_pod_status_is_the_most_specific_reason(status: dict, deleted: bool, text: str) -> None:
    metadata = {"name": "p"} | ({"deletionTimestamp": "2030-01-01T00:00:00Z"} if deleted else {})
    assert pod_status({"metadata": metadata, "spec": {}, "status": status}) == text


def cells_of(kind_id: str, **parts: object) -> dict[str, object]:
    headers, cells = WORKLOAD_COLUMNS[kind_id]
    obj = {"metadata": {"name": "x", "creationTimestamp": "2030-01-01T11:00:00Z"}, **parts}
    return dict(zip((header.name for header in headers), cells(obj, NOON), strict=True))


def test_deployment_shows_ready_and_wanted_replicas() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    cells = cells_of(
        "deployments.apps",
        spec={"replicas": 3, "template": template},
        status={"readyReplicas": 2, "updatedReplicas": 3},
    )
    assert (cells["Ready"], cells["Up-to-date"], cells["Age"], cells["Images"]) == ("2/3", 3, "60m", "nginx")


def test_job_shows_completions_and_duration() -> None:
    status = {"succeeded": 1, "startTime": "2030-01-01T11:00:00Z", "completionTime": "2030-01-01T11:02:30Z"}
    cells = cells_of("jobs.batch", spec={"completions": 2}, status=status)
    assert (cells["Status"], cells["Completions"], cells["Duration"]) == ("Running", "1/2", "2m30s")


def test_budget_shows_allowed_disruptions() -> None:
    cells = cells_of("poddisruptionbudgets.policy", spec={"minAvailable": "50%"}, status={"disruptionsAllowed": 1})
    assert (cells["Min Available"], cells["Max Unavailable"], cells["Allowed Disruptions"]) == ("50%", "N/A", 1)


def test_autoscaler_shows_current_and_target_utilization() -> None:
    resource = {"name": "cpu", "target": {"averageUtilization": 80}}
    spec = {"metrics": [{"type": "Resource", "resource": resource}], "maxReplicas": 4}
    current = [{"resource": {"current": {"averageUtilization": 30}}}]
    cells = cells_of("horizontalpodautoscalers.autoscaling", spec=spec, status={"currentMetrics": current})
    assert (cells["Targets"], cells["MinPods"]) == ("cpu: 30%/80%", "<unset>")
