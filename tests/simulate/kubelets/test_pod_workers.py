import asyncio

from simulate.fixtures import (
    DEPLOYMENTS,
    PODS,
    STATEFULSETS,
    create_pod,
    deployment,
    fleet,
    run_in_member,
    run_in_whole_cluster,
    statefulset,
)
from trimtab.client.client import Resource
from trimtab.simulate.fleet import FleetPlan, MemberPlan, NodePool, Pace
from trimtab.simulate.kubelets.node_status import NODES
from trimtab.simulate.kubelets.pod_reports import RUNTIME_CLASSES
from trimtab.simulate.member import SimulatedMember

EVENTS = Resource("", "v1", "events", "Event")


def test_pod_starts_and_becomes_ready_at_the_configured_pace() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1))
        seen = []
        for _ in range(4):
            await asyncio.sleep(2)
            (pod,) = member.pods
            seen.append((pod.status.phase, pod.is_ready))
        assert seen == [("Pending", False), ("Running", False), ("Running", False), ("Running", True)]

    run_in_member(scenario, fleet(pace=Pace(start=3, ready=4)))


def test_kubelet_rejects_pods_beyond_actual_capacity_when_nodes_report_more() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.kubelets.scale_reported_capacity(4)
        await member.client.create(DEPLOYMENTS, deployment(replicas=5, cpu="1"))
        await asyncio.sleep(30)
        ready = [pod for pod in member.pods if pod.is_ready]
        rejected = [pod for pod in member.pods if pod.status.phase == "Failed"]
        assert len(ready) == 2
        assert {pod.status.reason for pod in rejected} == {"OutOfcpu"}

    run_in_member(scenario, fleet(nodes=1, cpu="2"))


def test_deleted_pod_ends_within_its_grace_period() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=1, terminationGracePeriodSeconds=5))
        await asyncio.sleep(2)
        name = member.pods[0].name
        await member.client.delete(PODS, "default", name)
        await asyncio.sleep(4)
        assert name in {pod.name for pod in member.pods}
        await asyncio.sleep(2)
        assert name not in {pod.name for pod in member.pods}

    run_in_member(scenario, fleet(pace=Pace(stop=60)))


def test_kubelet_rejects_a_pod_whose_host_port_is_taken_and_its_statefulset_tries_again() -> None:
    async def scenario(member: SimulatedMember) -> None:
        node = next(iter(member.kubelets.machines))
        ports = [{"containerPort": 80, "hostPort": 80}]
        spec = {"nodeName": node, "containers": [{"name": "a", "image": "a", "ports": ports}]}
        await member.client.create(PODS, {"metadata": {"name": "first", "namespace": "default"}, "spec": spec})
        await asyncio.sleep(5)
        waiting = statefulset(replicas=1)
        waiting["spec"]["template"]["spec"] = spec
        await member.client.create(STATEFULSETS, waiting)
        uids: set[str] = set()
        for _ in range(100):
            await asyncio.sleep(0.1)
            uids |= {pod.metadata.uid for pod in member.pods if pod.name == "db-0"}
        assert len(uids) > 1
        await member.client.delete(PODS, "default", "first")
        await asyncio.sleep(60)
        assert [(pod.name, pod.status.phase) for pod in member.pods] == [("db-0", "Running")]

    run_in_member(scenario)


def test_pod_waits_while_its_node_has_no_handler_for_its_runtime_class() -> None:
    async def scenario(member: SimulatedMember) -> None:
        for name, handler in (("isolated", "other"), ("plain", "runc")):
            body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
            await member.client.create(RUNTIME_CLASSES, {**body, "handler": handler})
            await create_pod(member, name, runtimeClassName=name)
        await asyncio.sleep(30)
        assert {pod.name: pod.status.phase for pod in member.pods} == {"isolated": "Pending", "plain": "Running"}
        (status,) = (await member.client.get(PODS, "default", "isolated"))["status"]["containerStatuses"]
        assert status["state"]["waiting"]["reason"] == "ContainerCreating"
        events = (await member.client.list(EVENTS, "default")).items
        failures = {
            (event["involvedObject"]["name"], event["message"]) for event in events if event["type"] == "Warning"
        }
        error = 'failed to get sandbox runtime: no runtime for "other" is configured'
        assert failures == {("isolated", f"Failed to create pod sandbox: rpc error: code = Unknown desc = {error}")}
        (node,) = (await member.client.list(NODES)).items
        assert node["status"]["runtimeHandlers"] == [{"name": ""}, {"name": "runc"}]

    pool = NodePool(runtime_handlers=("runc",))
    plan = FleetPlan(members=(MemberPlan(name="one", pools=(pool,)),), pace="instant")
    run_in_whole_cluster(scenario, plan)


def test_nodes_without_a_list_of_handlers_run_every_runtime_class() -> None:
    async def scenario(member: SimulatedMember) -> None:
        body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "isolated"}}
        await member.client.create(RUNTIME_CLASSES, {**body, "handler": "other"})
        await create_pod(member, "web", runtimeClassName="isolated")
        await asyncio.sleep(10)
        assert [pod.status.phase for pod in member.pods] == ["Running"]

    run_in_member(scenario)
