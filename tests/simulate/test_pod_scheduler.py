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
from trimtab.api.kinds.native.pod import Pod
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


def test_first_fit_fills_nodes_in_order() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=5, cpu="1"))
        await asyncio.sleep(5)
        assert sorted(pod.spec.node_name[-1] for pod in member.pods) == ["1", "1", "2", "2", "3"]

    run_in_member(scenario, fleet(cpu="2", scheduler="first-fit"))


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


def test_retried_pods_keep_their_queue_order_among_equal_priorities() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment("full", 1, cpu="1"))
        await asyncio.sleep(5)
        for name in ("zebra", "ape"):
            await member.client.create(DEPLOYMENTS, deployment(name, 1, cpu="1"))
            await asyncio.sleep(5)
        await member.client.patch(DEPLOYMENTS, "default", "full", {"spec": {"replicas": 0}})
        await asyncio.sleep(10)
        assert [pod.metadata.labels["app"] for pod in member.pods if pod.is_ready] == ["zebra"]

    run_in_member(scenario, fleet(nodes=1, cpu="1"))


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


def pod_of(member: SimulatedMember, app: str) -> Pod:
    """The only pod of this application that is not terminating."""
    (found,) = [
        pod for pod in member.pods if pod.metadata.labels["app"] == app and pod.metadata.deletion_timestamp is None
    ]
    return found


async def reserve_second_node(member: SimulatedMember) -> Pod:
    """Two nodes; the second is reserved for the pod of the first, although another pod waits for it."""
    await member.cordon("one-node-2")
    await member.client.create(DEPLOYMENTS, deployment("web", 1, cpu="3"))
    await asyncio.sleep(5)
    await member.cordon("one-node-2", unschedulable=False)
    pod = pod_of(member, "web")
    assert pod.spec.node_name == "one-node-1"
    member.pod_scheduler.keep(pod, "one-node-2")
    await member.client.create(DEPLOYMENTS, deployment("other", 1, cpu="3"))
    await asyncio.sleep(5)
    assert pod_of(member, "other").spec.node_name == ""  # the node is reserved
    return pod


def test_reserved_node_is_given_to_the_replacement_and_nominated_in_its_status() -> None:
    async def scenario(member: SimulatedMember) -> None:
        pod = await reserve_second_node(member)
        await member.client.delete(PODS, "default", pod.name)
        await asyncio.sleep(10)
        replacement = pod_of(member, "web")
        assert (replacement.spec.node_name, replacement.status.nominated_node_name) == ("one-node-2", "one-node-2")
        assert pod_of(member, "other").spec.node_name == "one-node-1"

    run_in_member(scenario, fleet(nodes=2, cpu="4"))


def test_released_reservation_frees_the_node() -> None:
    async def scenario(member: SimulatedMember) -> None:
        pod = await reserve_second_node(member)
        member.pod_scheduler.let_go(pod)
        await asyncio.sleep(10)
        assert pod_of(member, "other").spec.node_name == "one-node-2"

    run_in_member(scenario, fleet(nodes=2, cpu="4"))


def test_reservation_expires() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await reserve_second_node(member)
        await asyncio.sleep(60)
        assert pod_of(member, "other").spec.node_name == ""
        await asyncio.sleep(60)
        assert pod_of(member, "other").spec.node_name == "one-node-2"

    run_in_member(scenario, fleet(nodes=2, cpu="4"))


def test_replacement_is_scheduled_elsewhere_when_its_reserved_node_no_longer_fits() -> None:
    async def scenario(member: SimulatedMember) -> None:
        pod = await reserve_second_node(member)
        await member.cordon("one-node-2")
        await member.client.delete(DEPLOYMENTS, "default", "other")
        await member.client.delete(PODS, "default", pod.name)
        await asyncio.sleep(10)
        assert pod_of(member, "web").spec.node_name == "one-node-1"

    run_in_member(scenario, fleet(nodes=2, cpu="4"))
