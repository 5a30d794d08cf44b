"""Pods that occupy nodes of a simulated member, so that only a part of their capacity is free."""

import asyncio

from simulate.fixtures import run_in_member
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.placeholders import placeholder_pod


def test_placeholder_occupies_its_node_whatever_its_taints() -> None:
    pod = placeholder_pod("n1", {"cpu": 1500, "memory": 1024})
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1500m", "memory": "1024"}
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_nodes_are_filled_once_and_free_again_after_the_deletion() -> None:
    async def act(member: SimulatedMember) -> None:
        for _ in range(2):
            await member.placeholders.fill_nodes(0.5)
            await asyncio.sleep(1)
        nodes = list(member.kubelets.machines)
        assert sorted(pod.metadata.name for pod in member.pods) == sorted(f"placeholder-{node}" for node in nodes)
        await member.placeholders.delete()
        await asyncio.sleep(60)
        assert member.pods == []
        await member.occupy_nodes({"cpu": 10**9})
        await asyncio.sleep(1)
        requested = {pod.spec.containers[0].resources.requests["cpu"] for pod in member.pods}
        capacities = {machine.capacity["cpu"] for machine in member.kubelets.machines.values()}
        assert len(member.pods) == len(nodes)
        assert requested == {str(capacity // 1000) for capacity in capacities}, "not more than is free"

    run_in_member(act)
