import asyncio

from simulate.fixtures import DEPLOYMENTS, NODES, PODS, deployment, fleet, run_in_member
from trimtab.simulate.fleet import Pace
from trimtab.simulate.member import SimulatedMember


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
        await member.scale_reported_capacity(4)
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


def test_idle_cluster_writes_only_heartbeats() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=3))
        await asyncio.sleep(60)
        before = member.server.store.revision
        await asyncio.sleep(600)
        assert member.server.store.revision - before == 3 * 60

    run_in_member(scenario)


def test_pods_move_when_nodes_are_removed_and_added() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(5)
        plan = member.kubelets.machines["one-node-1"].plan
        await member.remove_node("one-node-1")
        await asyncio.sleep(5)
        nodes_used = {pod.spec.node_name for pod in member.pods if pod.is_ready}
        assert (len(member.pods), nodes_used) == (6, {"one-node-2", "one-node-3"})
        await member.add_node(plan.but(name="late"))
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
        await member.add_node(plan)
        assert earlier.raw["metadata"]["uid"] != member.kubelets.machines["one-node-1"].uid
        await asyncio.sleep(1)
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(30)
        assert sum(pod.is_ready for pod in member.pods if pod.spec.node_name == "one-node-1") == 2

    run_in_member(scenario)
