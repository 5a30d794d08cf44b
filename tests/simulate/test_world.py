import asyncio

from simulate.fixtures import DEPLOYMENTS, PODS, deployment, fleet, run_in_world, status
from trimtab.api.value import Raw
from trimtab.client.client import Listing
from trimtab.clock import run_virtually
from trimtab.simulate.fleet import MemberPlan, flows_fleet, uniform_fleet
from trimtab.simulate.world import World


def objects_after_run(seed: int) -> list[tuple[str, str]]:
    """All objects at the end of a run with random pace."""

    async def scenario(world: World) -> list[tuple[str, str]]:
        for member in world:
            await member.client.create(DEPLOYMENTS, deployment(replicas=5))
        await asyncio.sleep(7.3)
        world["member1"].kubelets.fail("member1-node-1")
        await asyncio.sleep(600)
        found: list[Raw] = []
        for member in world:
            for resource in (DEPLOYMENTS, PODS):
                listing: Listing = await member.client.list(resource)
                found += listing.items
        return [(one["metadata"]["name"], repr(one)) for one in found]

    plan = flows_fleet().but(pace="typical", scheduler="pods", heartbeat=None)
    seen: list[tuple[str, str]] = run_in_world(plan, scenario, seed=seed)
    return seen


def test_runs_with_the_same_seed_are_identical_and_differ_between_seeds() -> None:
    assert objects_after_run(1) == objects_after_run(1)
    assert objects_after_run(1) != objects_after_run(2)


def test_members_can_be_added_and_removed() -> None:
    async def scenario(world: World) -> None:
        late = await world.add(MemberPlan(name="late", nodes=2))
        await late.client.create(DEPLOYMENTS, deployment())
        await asyncio.sleep(5)
        assert (await status(late.client, DEPLOYMENTS, "web"))["readyReplicas"] == 3
        await world.remove("late")
        assert list(world.members) == ["one"]

    run_in_world(fleet(), scenario)


def test_a_hundred_members_of_fifty_nodes_run_in_one_process() -> None:
    async def scenario() -> int:
        world = World(uniform_fleet(100, 50).but(pace="instant"))
        await world.start()
        for member in list(world)[:20]:
            await member.client.create(DEPLOYMENTS, deployment(replicas=10))
        await asyncio.sleep(120)
        running = sum(pod.is_ready for member in world for pod in member.pods)
        await world.stop()
        return running

    assert run_virtually(scenario()) == 200
