"""A move that is requested while another one is in progress happens after it, at once and completely."""

import asyncio

import pytest
from move_helpers import MoveScenario, aggregated, divided, run_scenario

from trimtab.api.value import Raw
from trimtab.cli.commands.drain_cluster import start_drain


def test_drain_during_a_rebalance_ends_as_soon_as_its_replacement_is_ready() -> None:
    async def act(scene: MoveScenario) -> None:
        await scene.set_taints("m3", "closed:NoSchedule")
        await scene.create_deployment("web", replicas=4)
        await scene.create_policy(divided(("m1", 1), ("m2", 2), ("m3", 3)))
        await scene.wait_until_settled("web", {"m1": 1, "m2": 3})
        await scene.set_taints("m3")
        await asyncio.sleep(20)
        scene.record_lowest_ready("web")
        await scene.create_rebalancer("web")
        await asyncio.sleep(1.5)
        assert (await scene.get_binding()).status.holds
        await start_drain(scene.client, "m1")
        await scene.wait_until_settled("web", {"m2": 2, "m3": 2}, seconds=90)
        assert scene.lowest_ready["web"] == 4
        assert {move.status.outcome for move in await scene.list_moves()} == {"Done"}

    run_scenario(act, pace="typical")


def test_failover_beside_a_drain_is_logged_once_with_its_own_cause() -> None:
    async def act(scene: MoveScenario) -> None:
        await scene.set_taints("m4", "closed:NoSchedule")
        await scene.create_deployment("web", replicas=6)
        await scene.create_policy(divided(("m1", 1), ("m2", 1), ("m3", 1), ("m4", 1)))
        await scene.wait_until_settled("web", {"m1": 2, "m2": 2, "m3": 2})
        await scene.set_taints("m4")
        await asyncio.sleep(20)
        await start_drain(scene.client, "m1")
        await asyncio.sleep(1.5)
        assert (await scene.get_binding()).status.holds
        await scene.set_taints("m2", "broken:NoExecute")
        await scene.wait_until_settled("web", {"m3": 3, "m4": 3}, seconds=300)
        causes = [(move.spec.from_, move.spec.cause, move.status.outcome) for move in await scene.list_moves()]
        assert sorted(causes) == [("m1", "Drain", "Done"), ("m2", "ClusterFailover", "Done")]

    run_scenario(act, pace="typical", members=4)


@pytest.mark.parametrize(
    "placement",
    [
        aggregated("m1", "m2", "m3"),
        {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]},
    ],
    ids=["divided", "duplicated"],
)
def test_old_replicas_stay_until_others_are_ready_when_the_new_cluster_fails_during_the_move(placement: Raw) -> None:
    async def act(scene: MoveScenario) -> None:
        await scene.set_taints("m2", "closed:NoSchedule")
        await scene.set_taints("m3", "closed:NoSchedule")
        await scene.create_deployment("web", replicas=3)
        await scene.create_policy(placement)
        await scene.wait_until_settled("web", {"m1": 3})
        scene.record_lowest_ready("web")
        await scene.set_taints("m2")
        scene.world["m2"].partition()
        await start_drain(scene.client, "m1")

        async def has_moved() -> bool:
            return await scene.placement_of("web") == {"m2": 3}

        await scene.wait_until(has_moved)
        await scene.set_taints("m3")
        await scene.set_taints("m2", "broken:NoExecute")

        async def has_arrived() -> bool:
            return scene.ready_pods("web") == {"m3": 3} and not (await scene.get_binding()).status.holds

        await scene.wait_until(has_arrived, 900)
        assert scene.lowest_ready["web"] == 3

    run_scenario(act)
