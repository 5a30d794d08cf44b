import asyncio

from simulate.fixtures import DEPLOYMENTS, NODES, deployment, run_in_member
from trimtab.simulate.member import SimulatedMember


def test_pods_move_when_nodes_are_removed_and_added() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(5)
        plan = member.kubelets.machines["one-node-1"].plan
        await member.kubelets.remove("one-node-1")
        await asyncio.sleep(5)
        nodes_used = {pod.spec.node_name for pod in member.pods if pod.is_ready}
        assert (len(member.pods), nodes_used) == (6, {"one-node-2", "one-node-3"})
        await member.kubelets.add(plan.but(name="late"))
        await asyncio.sleep(1)
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 9}})
        await asyncio.sleep(5)
        assert sum(pod.spec.node_name == "late" for pod in member.pods) == 3

    run_in_member(scenario)


def test_late_deletion_event_of_an_earlier_node_does_not_remove_its_successor() -> None:
    async def scenario(member: SimulatedMember) -> None:
        plan = member.kubelets.machines["one-node-1"].plan
        await member.client.delete(NODES, "", "one-node-1")
        earlier = member.cache.table(NODES).entries[("", "one-node-1")]  # the deletion event has not arrived yet
        await member.kubelets.add(plan)
        assert earlier.raw["metadata"]["uid"] != member.kubelets.machines["one-node-1"].uid
        await asyncio.sleep(1)
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(30)
        assert sum(pod.is_ready for pod in member.pods if pod.spec.node_name == "one-node-1") == 2

    run_in_member(scenario)
