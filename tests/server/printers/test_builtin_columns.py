"""Table columns of built-in kinds."""

from datetime import UTC, datetime

from trimtab.server.printers.builtin_columns import columns_for

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def cells_of(kind_id: str, **parts: object) -> dict[str, object]:
    headers, cells = columns_for(kind_id)
    obj = {"metadata": {"name": "x", "creationTimestamp": "2030-01-01T11:00:00Z"}, **parts}
    return dict(zip((header.name for header in headers), cells(obj, NOON), strict=True))


def test_kind_without_columns_shows_name_and_creation_time() -> None:
    assert cells_of("roles.rbac.authorization.k8s.io") == {"Name": "x", "Created At": "2030-01-01T11:00:00Z"}


def test_cordoned_node_shows_scheduling_disabled() -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    cells = cells_of("nodes", spec={"unschedulable": True}, status={"conditions": conditions})
    assert (cells["Status"], cells["Roles"]) == ("Ready,SchedulingDisabled", "<none>")


def test_load_balancer_without_address_is_pending() -> None:
    ports = [{"port": 80, "nodePort": 30080}]
    cells = cells_of("services", spec={"type": "LoadBalancer", "ports": ports})
    assert (cells["External-IP"], cells["Port(s)"]) == ("<pending>", "80:30080/TCP")


def test_quota_separates_requests_and_limits() -> None:
    status = {"hard": {"limits.cpu": "4", "pods": "9"}, "used": {"pods": "2"}}
    cells = cells_of("resourcequotas", status=status)
    assert (cells["Request"], cells["Limit"]) == ("pods: 2/9", "limits.cpu: 0/4")


def test_workload_kinds_are_included() -> None:
    assert [header.name for header in columns_for("pods").headers][:3] == ["Name", "Ready", "Status"]


def test_flow_control_objects_show_their_limits() -> None:
    group = "flowcontrol.apiserver.k8s.io"
    spec = {"priorityLevelConfiguration": {"name": "system"}, "matchingPrecedence": 500}
    status = {"conditions": [{"type": "Dangling", "status": "False"}]}
    cells = cells_of(f"flowschemas.{group}", spec=spec, status=status)
    assert (cells["PriorityLevel"], cells["DistinguisherMethod"], cells["MissingPL"]) == ("system", "<none>", "False")
    queuing = {"queues": 64, "handSize": 6, "queueLengthLimit": 50}
    limited = {"nominalConcurrencyShares": 30, "limitResponse": {"type": "Queue", "queuing": queuing}}
    cells = cells_of(f"prioritylevelconfigurations.{group}", spec={"type": "Limited", "limited": limited})
    assert (cells["NominalConcurrencyShares"], cells["Queues"], cells["HandSize"]) == ("30", "64", "6")
