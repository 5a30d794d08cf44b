import asyncio

from simulate.fixtures import (
    DEPLOYMENTS,
    NODES,
    PODS,
    deployment,
    fleet,
    run_in_member,
    template,
)
from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.simulate.member import SimulatedMember


def test_pods_spread_over_the_nodes() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(5)
        per_node = [sum(pod.spec.node_name == node for pod in member.pods) for node in member.kubelets.machines]
        assert per_node == [2, 2, 2]

    run_in_member(scenario)


def test_unschedulable_pod_reports_the_reason_and_is_bound_when_capacity_appears() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=4, cpu="1"))
        await asyncio.sleep(5)
        (waiting,) = [pod for pod in member.pods if not pod.spec.node_name]
        (scheduled,) = [one for one in waiting.status.conditions if one.type == "PodScheduled"]
        assert scheduled.status == "False"
        assert scheduled.reason == "Unschedulable"
        assert scheduled.message == "0/3 nodes are available: 3 Insufficient cpu."
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 3}})
        await asyncio.sleep(5)
        assert len(member.pods) == 3
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 4}})
        await asyncio.sleep(5)
        await member.client.create(DEPLOYMENTS, deployment("other", 0))
        bigger = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
        member.kubelets.machines["one-node-2"].capacity["cpu"] = 4000
        await member.client.patch(NODES, "", "one-node-2", bigger, subresource="status")
        await asyncio.sleep(5)
        assert all(pod.is_ready for pod in member.pods)

    run_in_member(scenario, fleet(cpu="1"))


def test_binding_is_retried_elsewhere_when_another_scheduler_took_the_capacity() -> None:
    async def scenario(member: SimulatedMember) -> None:
        scheduler = member.pod_scheduler
        original_submit = scheduler._client.submit
        taken: list[str] = []

        async def submit(resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
            if subresource == "binding" and not taken:
                taken.append(name)
                await member.client.create(PODS, other | {"metadata": {"name": "other", "namespace": "default"}})
                body = {"metadata": {"name": "other"}, "target": {"kind": "Node", "name": obj["target"]["name"]}}
                await original_submit(resource, namespace, "other", "binding", body)
            return await original_submit(resource, namespace, name, subresource, obj)

        scheduler._client.submit = submit
        other = {"apiVersion": "v1", "kind": "Pod", "spec": template("other", cpu="1", schedulerName="another")["spec"]}
        await member.client.create(DEPLOYMENTS, deployment("web", 1, cpu="1"))
        await asyncio.sleep(10)
        places = {pod.name[:5]: pod.spec.node_name for pod in member.pods}
        assert sorted(places.values()) == ["one-node-1", "one-node-2"]
        assert all(pod.is_ready for pod in member.pods)

    run_in_member(scenario, fleet(nodes=2, cpu="1"))
