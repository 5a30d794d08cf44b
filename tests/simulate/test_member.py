import asyncio
from pathlib import Path

import pytest

from simulate.fixtures import (
    DEPLOYMENTS,
    NODES,
    PODS,
    deployment,
    fleet,
    run_in_member,
    run_in_whole_cluster,
    status,
)
from trimtab.runtime.cache import Cache
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.world import World


def test_partitioned_member_is_unreachable_but_keeps_running() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        cache = Cache(member.client)
        table = cache.table(PODS)
        await asyncio.sleep(5)
        assert len(table.entries) == 2
        member.partition()
        with pytest.raises(ConnectionError):
            await member.client.get(DEPLOYMENTS, "default", "web")
        await member.internal_client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 4}})
        await asyncio.sleep(30)
        assert len(member.pods) == 4
        assert len(table.entries) == 2
        member.heal()
        await asyncio.sleep(60)
        assert len(table.entries) == 4
        await cache.close()

    run_in_member(scenario)


def test_partition_with_timeout_delays_the_failure() -> None:
    async def scenario(member: SimulatedMember) -> None:
        member.partition(timeout_seconds=30)
        began = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError):
            await member.client.fetch("/readyz")
        assert asyncio.get_running_loop().time() - began == 30
        assert not member.is_reachable

    run_in_member(scenario)


def test_delay_is_added_to_requests() -> None:
    async def scenario(member: SimulatedMember) -> None:
        member.delay_requests(2.5)
        began = asyncio.get_running_loop().time()
        assert (await member.client.fetch("/readyz")).code == 200
        assert asyncio.get_running_loop().time() - began == 2.5

    run_in_member(scenario)


def test_member_resumes_without_evictions_after_its_api_server_was_down() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(5)
        member.stop_api()
        revision = member.server.store.revision
        with pytest.raises(ConnectionError):
            await member.client.fetch("/readyz")
        await asyncio.sleep(100)
        assert member.server.store.revision == revision
        member.start_api()
        await member.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 3}})
        for _ in range(100):
            await asyncio.sleep(0.2)
            assert sum(pod.is_ready for pod in member.pods) >= 2, (
                "a silence of the API server is not the death of nodes"
            )
        assert (await status(member.client, DEPLOYMENTS, "web"))["readyReplicas"] == 3
        nodes = (await member.client.list(NODES)).items
        assert all(not node["spec"].get("taints") for node in nodes)

    run_in_member(scenario)


def test_filled_member_accepts_no_pods_until_placeholders_are_deleted() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.placeholders.fill_nodes()
        await asyncio.sleep(2)
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(5)
        assert not (await status(member.client, DEPLOYMENTS, "web")).get("readyReplicas")
        await member.placeholders.delete()
        await asyncio.sleep(5)
        assert (await status(member.client, DEPLOYMENTS, "web"))["readyReplicas"] == 2

    run_in_member(scenario)


def test_drained_node_stays_empty() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(5)
        await member.drain("one-node-1")
        await asyncio.sleep(5)
        nodes_used = [pod.spec.node_name for pod in member.pods if pod.is_ready]
        assert len(nodes_used) == 6
        assert "one-node-1" not in nodes_used

    run_in_member(scenario)


def test_member_without_scheduler_and_some_admission_plugins_stores_pods_as_they_are() -> None:
    async def scenario(member: SimulatedMember) -> None:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
        containers = [{"name": "c", "image": "app:1"}]
        await member.client.create(PODS, {**pod, "spec": {"containers": containers}})
        await asyncio.sleep(30)
        stored = await member.client.get(PODS, "default", "p")
        assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
        assert not {"nodeName", "serviceAccountName", "tolerations", "volumes"} & set(stored["spec"])

    left_out = ("ServiceAccount", "DefaultTolerationSeconds")
    run_in_whole_cluster(scenario, fleet(scheduler="none", disable_admission_plugins=left_out))


def test_member_on_disk_keeps_its_objects_over_a_restart(tmp_path: Path) -> None:
    async def run() -> list[str]:
        world = World(fleet(), directory=tmp_path)
        await world.start()
        member = world["one"]
        if not (await member.client.list(DEPLOYMENTS)).items:
            await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        async with asyncio.timeout(20):
            while (await status(member.client, DEPLOYMENTS, "web")).get("readyReplicas") != 2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        names = [pod.name for pod in member.pods]
        await world.stop()
        return names

    assert asyncio.run(run()) == asyncio.run(run())


def test_garbage_collection_works_after_watches_fell_behind() -> None:
    async def scenario(member: SimulatedMember) -> None:
        await member.client.create(DEPLOYMENTS, deployment())
        await asyncio.sleep(5)
        for number in range(5000):  # without a pause, so that no watch can keep up
            await member.client.patch(NODES, "", "one-node-1", {"metadata": {"labels": {"storm": str(number)}}})
        await member.client.delete(DEPLOYMENTS, "default", "web")
        await asyncio.sleep(5)
        assert not member.pods

    run_in_member(scenario)
