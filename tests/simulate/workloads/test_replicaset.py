import asyncio
from datetime import UTC, datetime, timedelta

from views import FakeView

from simulate.fixtures import REPLICASETS, condition, run_in_member, status, template, workload
from trimtab.api.kinds.native.pod import Pod, PodCondition, PodSpec, PodStatus
from trimtab.api.value import Meta
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.workloads.replicaset import DELETION_COST, pods_to_delete

NOW = datetime(2030, 1, 1, tzinfo=UTC)
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")


def pod(name: str, *, node: str = "node-1", ready: bool = True, cost: str = "0", age: float = 60) -> Pod:
    created = NOW - timedelta(seconds=age)
    conditions = (PodCondition(type="Ready", status="True", last_transition_time=created),) if ready else ()
    annotations = {DELETION_COST: cost} if cost != "0" else {}
    return Pod(
        metadata=Meta(name=name, namespace="default", annotations=annotations, creation_timestamp=created),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase="Running" if node else "Pending", conditions=conditions),
    )


def test_pods_are_deleted_in_the_order_of_kubernetes() -> None:
    pods = [
        pod("old", age=600),
        pod("young", age=60),
        pod("alone", node="node-2"),
        pod("cheap", cost="-1", age=900),
        pod("unready", ready=False),
        pod("unbound", node="", ready=False),
    ]
    order = [one.name for one in pods_to_delete(pods, len(pods), FakeView())]
    assert order == ["unbound", "unready", "cheap", "young", "old", "alone"]
    assert pods_to_delete(pods, 0, FakeView()) == []


def replicaset(replicas: int) -> dict[str, object]:
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web")}
    return workload("ReplicaSet", "web", body)


def test_refused_pods_are_reported_as_replica_failure_until_they_are_allowed() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(QUOTAS, workload("ResourceQuota", "small", {"hard": {"pods": "1"}}, "v1"))
        await member.client.create(REPLICASETS, replicaset(2))
        await asyncio.sleep(10)
        assert len(member.pods) == 1
        failure = condition(await status(member.client, REPLICASETS, "web"), "ReplicaFailure")
        assert failure["reason"] == "FailedCreate"
        assert "exceeded quota: small" in failure["message"]
        await member.client.delete(QUOTAS, "default", "small")
        await asyncio.sleep(600)
        seen = await status(member.client, REPLICASETS, "web")
        assert (seen["readyReplicas"], seen.get("conditions", [])) == (2, [])

    run_in_member(scenario)


def test_a_replication_controller_keeps_its_pods_and_reports_them() -> None:
    async def scenario(member: SimulatedMember) -> None:
        spec = {"replicas": 2, "selector": {"app": "web"}, "template": template("web")}
        await member.client.create(CONTROLLERS, workload("ReplicationController", "web", spec, "v1"))
        await asyncio.sleep(5)
        seen = await status(member.client, CONTROLLERS, "web")
        assert {key: seen[key] for key in ("replicas", "readyReplicas", "availableReplicas")} == {
            "replicas": 2,
            "readyReplicas": 2,
            "availableReplicas": 2,
        }
        await member.client.patch(CONTROLLERS, "default", "web", {"spec": {"replicas": 1}})
        await asyncio.sleep(5)
        assert len(member.pods) == 1

    run_in_member(scenario)
