from datetime import UTC, datetime, timedelta

from trimtab.api.kinds.native.node import NodeCondition
from trimtab.simulate.fleet import MemberPlan
from trimtab.simulate.kubelets.machine import SimulatedMachine, node_conditions, node_object

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_node_object_describes_the_machine() -> None:
    plan = next(iter(MemberPlan(name="one", nodes=1, cpu="4", region="eu").node_plans()))
    node = node_object(SimulatedMachine(plan, 1), NOW)
    assert node["metadata"]["labels"]["topology.kubernetes.io/region"] == "eu"
    assert node["status"]["allocatable"]["cpu"] == "4"
    assert node["status"]["addresses"][0]["address"] == "172.16.0.1"
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250


def test_condition_keeps_its_transition_time_until_its_status_changes() -> None:
    earlier = NOW - timedelta(hours=1)
    before = [
        NodeCondition(type=type_, status=status, last_transition_time=earlier)
        for type_, status in (("MemoryPressure", "False"), ("Ready", "True"))
    ]
    times = {one["type"]: one["lastTransitionTime"] for one in node_conditions(NOW, {"memory"}, before)}
    assert times["Ready"] == "2025-12-31T23:00:00Z"
    assert times["MemoryPressure"] == "2026-01-01T00:00:00Z"


def test_cpu_pressure_is_reported_only_where_it_is_or_was_set() -> None:
    def types(conditions: list[dict[str, str]]) -> set[str]:
        return {one["type"] for one in conditions}

    was_set = [NodeCondition(type="CPUPressure", status="True")]
    assert "CPUPressure" not in types(node_conditions(NOW))
    assert "CPUPressure" in types(node_conditions(NOW, {"cpu"}))
    assert "CPUPressure" in types(node_conditions(NOW, (), was_set))
