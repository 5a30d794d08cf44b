"""The load of clusters in plans, also right after something was placed or moved."""

import asyncio

import pytest
from move_helpers import MoveScenario, run_scenario

from cli.scenarios import place_four_replicas_in_m1, place_in_m1_and_m2
from trimtab.client.client import Resource
from trimtab.clock import LoopClock
from trimtab.dryrun.change import Change
from trimtab.dryrun.fleet_state import fetch_fleet_state
from trimtab.dryrun.plan import make_plan
from trimtab.dryrun.plan_loads import spread_of
from trimtab.dryrun.plan_result import ClusterLoad

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
EVEN = (
    ClusterLoad(cluster="a", cpu_before=0.5, cpu_after=0.9),
    ClusterLoad(cluster="b", cpu_before=0.5, cpu_after=0.1),
)


def test_spread_is_the_standard_deviation_in_percentage_points() -> None:
    assert spread_of(EVEN, after=False) == 0.0
    assert spread_of(EVEN, after=True) == 40.0
    assert spread_of((*EVEN[:1], ClusterLoad(cluster="c", is_lost=True, cpu_before=0.1)), after=False) is None


async def loads_in(scene: MoveScenario, **change: object) -> list[tuple[float | None, float | None]]:
    plan = make_plan(await fetch_fleet_state(scene.client, LoopClock().now()), Change(**change))
    return [(load.pods_before, load.pods_after) for load in plan.load[:2]]


@pytest.mark.parametrize("seconds", [0, 5, 12])
def test_load_after_a_move_is_that_of_the_pods_whether_reported_or_not(seconds: int) -> None:
    async def act(scene: MoveScenario) -> None:
        await place_four_replicas_in_m1(scene)
        await scene.create_rebalancer("web")
        await scene.wait_until_settled("web", {"m1": 2, "m2": 2})
        await asyncio.sleep(seconds)
        (m1, m1_after), (m2, m2_after) = await loads_in(scene)
        assert m1 == m2 == m1_after == m2_after != 0
        (m1, m1_after), (m2, m2_after) = await loads_in(scene, lose_clusters=("m1",))
        assert (m1, m1_after) == (m2, None)
        assert m2_after == pytest.approx(2 * (m2 or 0))

    run_scenario(act)


def test_load_of_a_new_workload_is_counted_at_once() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        for _ in range(4):
            assert await loads_in(scene) == [(round(2 / 110, 4),) * 2] * 2
            await asyncio.sleep(4)

    run_scenario(act)


def test_load_of_a_workload_that_grows_is_counted_at_once() -> None:
    async def act(scene: MoveScenario) -> None:
        await place_in_m1_and_m2(scene, "web")
        await asyncio.sleep(12)
        await scene.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 8}})
        await scene.wait_until_settled("web", {"m1": 4, "m2": 4})
        assert await loads_in(scene) == [(round(4 / 110, 4),) * 2] * 2

    run_scenario(act)
