import asyncio

from simulate.fixtures import DEPLOYMENTS, PODS, deployment, fleet, run_in_member
from trimtab.api.kinds.native.pod import Pod
from trimtab.simulate.member import SimulatedMember


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
