import asyncio
from pathlib import Path

import pytest

from simulate.fixtures import DEPLOYMENTS, NODES, PODS, deployment, fleet, in_a_member, in_a_world, status
from trimtab.api.value import Raw
from trimtab.client.client import Listing
from trimtab.clock import run_virtually
from trimtab.runtime.cache import Cache
from trimtab.simulate.fleet import MemberPlan, flows_fleet, uniform_fleet
from trimtab.simulate.member import Member
from trimtab.simulate.world import World


def test_a_partitioned_member_is_out_of_reach_but_lives_on() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        cache = Cache(member.client)
        table = cache.table(PODS)
        await asyncio.sleep(5)
        assert len(table.entries) == 2
        member.partition()
        with pytest.raises(ConnectionError):
            await member.client.get(DEPLOYMENTS, "default", "web")
        await member.inside.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 4}})
        await asyncio.sleep(30)
        assert len(member.pods) == 4
        assert len(table.entries) == 2
        member.heal()
        await asyncio.sleep(60)
        assert len(table.entries) == 4
        await cache.close()

    in_a_member(story)


def test_a_silent_member_lets_its_callers_wait() -> None:
    async def story(member: Member) -> None:
        member.partition(silent_seconds=30)
        began = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError):
            await member.client.fetch("/readyz")
        assert asyncio.get_running_loop().time() - began == 30
        assert not member.reachable

    in_a_member(story)


def test_a_slow_member_answers_late() -> None:
    async def story(member: Member) -> None:
        member.slow(2.5)
        began = asyncio.get_running_loop().time()
        assert (await member.client.fetch("/readyz")).code == 200
        assert asyncio.get_running_loop().time() - began == 2.5

    in_a_member(story)


def test_while_the_api_server_is_down_nothing_changes_and_afterwards_all_goes_on() -> None:
    async def story(member: Member) -> None:
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
            assert sum(pod.ready for pod in member.pods) >= 2, "a silence of the API server is not the death of nodes"
        assert (await status(member.client, DEPLOYMENTS, "web"))["readyReplicas"] == 3
        nodes = (await member.client.list(NODES)).items
        assert all(not node["spec"].get("taints") for node in nodes)

    in_a_member(story)


def test_a_full_member_takes_nothing_more_until_it_is_emptied() -> None:
    async def story(member: Member) -> None:
        await member.fill()
        await asyncio.sleep(2)
        await member.client.create(DEPLOYMENTS, deployment(replicas=2))
        await asyncio.sleep(5)
        assert not (await status(member.client, DEPLOYMENTS, "web")).get("readyReplicas")
        await member.empty()
        await asyncio.sleep(5)
        assert (await status(member.client, DEPLOYMENTS, "web"))["readyReplicas"] == 2

    in_a_member(story)


def test_a_drained_node_ends_empty_and_stays_so() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment(replicas=6))
        await asyncio.sleep(5)
        await member.drain("one-node-1")
        await asyncio.sleep(5)
        homes = [pod.spec.node_name for pod in member.pods if pod.ready]
        assert len(homes) == 6
        assert "one-node-1" not in homes

    in_a_member(story)


def chronicle(seed: int) -> list[tuple[str, str]]:
    """Everything a world with dice in it ends up with, to the letter."""

    async def story(world: World) -> list[tuple[str, str]]:
        for member in world:
            await member.client.create(DEPLOYMENTS, deployment(replicas=5))
        await asyncio.sleep(7.3)
        world["member1"].fail_node("member1-node-1")
        await asyncio.sleep(600)
        found: list[Raw] = []
        for member in world:
            for resource in (DEPLOYMENTS, PODS):
                listing: Listing = await member.client.list(resource)
                found += listing.items
        return [(one["metadata"]["name"], repr(one)) for one in found]

    plan = flows_fleet().but(pace="typical", binder="pods", heartbeat=None)
    seen: list[tuple[str, str]] = in_a_world(plan, story, seed=seed)
    return seen


def test_the_same_seed_gives_the_same_world_and_another_seed_another() -> None:
    assert chronicle(1) == chronicle(1)
    assert chronicle(1) != chronicle(2)


def test_members_come_and_go() -> None:
    async def story(world: World) -> None:
        late = await world.add(MemberPlan(name="late", nodes=2))
        await late.client.create(DEPLOYMENTS, deployment())
        await asyncio.sleep(5)
        assert (await status(late.client, DEPLOYMENTS, "web"))["readyReplicas"] == 3
        await world.remove("late")
        assert list(world.members) == ["one"]

    in_a_world(fleet(), story)


def test_a_member_on_disk_remembers_everything_and_goes_on(tmp_path: Path) -> None:
    async def life() -> list[str]:
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

    assert asyncio.run(life()) == asyncio.run(life())


def test_a_hundred_members_of_fifty_nodes_live_in_one_process() -> None:
    async def story() -> int:
        world = World(uniform_fleet(100, 50).but(pace="instant"))
        await world.start()
        for member in list(world)[:20]:
            await member.client.create(DEPLOYMENTS, deployment(replicas=10))
        await asyncio.sleep(120)
        running = sum(pod.ready for member in world for pod in member.pods)
        await world.stop()
        return running

    assert run_virtually(story()) == 200


def test_after_a_storm_of_writes_a_member_still_cleans_up() -> None:
    async def story(member: Member) -> None:
        await member.client.create(DEPLOYMENTS, deployment())
        await asyncio.sleep(5)
        for number in range(5000):  # without a pause, so that nobody who watches can keep up
            await member.client.patch(NODES, "", "one-node-1", {"metadata": {"labels": {"storm": str(number)}}})
        await member.client.delete(DEPLOYMENTS, "default", "web")
        await asyncio.sleep(5)
        assert not member.pods

    in_a_member(story)
