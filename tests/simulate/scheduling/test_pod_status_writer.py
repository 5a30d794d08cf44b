import asyncio

from simulate.fixtures import PODS, condition, create_pod, run_in_member
from trimtab.clock import LoopClock
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.scheduling.pod_status_writer import PodStatusWriter

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}


def test_condition_is_written_once_and_keeps_its_transition_time_while_the_status_is_unchanged() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_pod(member, "web", schedulerName="another")
        await asyncio.sleep(1)
        (pod,) = member.pods
        writer = PodStatusWriter(member.cache, LoopClock())
        await writer.set_condition(pod, UNSCHEDULABLE)
        first = await member.client.get(PODS, "default", "web")
        await asyncio.sleep(10)
        await writer.set_condition(pod, UNSCHEDULABLE)
        assert (await member.client.get(PODS, "default", "web"))["metadata"] == first["metadata"]
        await writer.set_condition(pod, {**UNSCHEDULABLE, "message": "still no node"})
        second = await member.client.get(PODS, "default", "web")
        before, after = condition(first["status"], "PodScheduled"), condition(second["status"], "PodScheduled")
        assert after["message"] == "still no node"
        assert after["lastTransitionTime"] == before["lastTransitionTime"]

    run_in_member(scenario)


def test_nominated_node_is_set_and_cleared() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await create_pod(member, "web", schedulerName="another")
        await asyncio.sleep(1)
        writer = PodStatusWriter(member.cache, LoopClock())
        for node in ("one-node-1", None):
            await writer.set_nominated_node(member.pods[0], node)
            assert member.pods[0].status.nominated_node_name == (node or "")

    run_in_member(scenario)
