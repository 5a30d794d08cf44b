"""Fleets in memory for tests of commands that move workloads."""

import asyncio

from move_helpers import MoveScenario, divided

from trimtab.simulate.kubelets.behaviour import NEVER_READY, BehaviourOverride


async def place_four_replicas_in_m1(scene: MoveScenario) -> None:
    """Four replicas in m1, although m2 could have half of them now."""
    await scene.set_taints("m2", "closed:NoSchedule")
    await scene.create_deployment(replicas=4, labels={"team": "blue"})
    await scene.create_policy(divided(("m1", 1), ("m2", 1)))
    await scene.wait_until_settled("web", {"m1": 4})
    await scene.set_taints("m2")
    await asyncio.sleep(12)


async def place_in_m1_and_m2(scene: MoveScenario, *names: str) -> None:
    for name in names:
        await scene.create_deployment(name, replicas=4)
    await scene.create_policy(divided(("m1", 1), ("m2", 1)))
    for name in names:
        await scene.wait_until_settled(name, {"m1": 2, "m2": 2})


async def fail_over_from_m1_to_m2(scene: MoveScenario) -> None:
    """The workload is never ready in m1; m2 takes over, and the copy in m1 is kept."""
    scene.world["m1"].kubelets.override_behaviour(BehaviourOverride("broken", NEVER_READY))
    await scene.create_deployment(replicas=2)
    failover = {"application": {"decisionConditions": {"tolerationSeconds": 10}, "purgeMode": "Never"}}
    groups = [{"affinityName": name, "clusterNames": [name]} for name in ("m1", "m2")]
    await scene.create_policy({"clusterAffinities": groups}, failover=failover, propagateDeps=True)
    await asyncio.sleep(60)
    assert await scene.placement_of() == {"m2": 2}
