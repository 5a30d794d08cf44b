"""A move that is requested while another one is in progress happens after it, at once and completely."""

import asyncio

from move_helpers import MoveScenario, divided, run_scenario

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
