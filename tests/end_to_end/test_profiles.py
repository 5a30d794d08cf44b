"""A namespace may ask for a profile of its own; what is elsewhere goes on as before."""

import asyncio

from move_helpers import Scene, divided, story

from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import ResourceBinding

SHARES = divided(("m1", 1), ("m2", 1))


async def moved_from_one_to_two(scene: Scene) -> ResourceBinding:
    """The binding a moment after a rebalance was asked for that takes replicas away from m1."""
    await scene.taint("m2", "closed:NoSchedule")
    await scene.deploy(replicas=4)
    await scene.policy(SHARES)
    await scene.settled("web", {"m1": 4})
    await scene.taint("m2")
    await asyncio.sleep(12)
    await scene.rebalance("web")
    await asyncio.sleep(0.5)
    return await scene.binding()


def test_a_namespace_that_asks_for_upstream_is_moved_at_once_and_told_nothing_of_ours() -> None:
    async def act(scene: Scene) -> None:
        await scene.edit(Namespace, "default", {"metadata": {"annotations": {"trimtab.dev/profile": "upstream"}}})
        binding = await moved_from_one_to_two(scene)
        assert {target.name: target.replicas for target in binding.spec.clusters} == {"m1": 2, "m2": 2}
        assert not binding.status.holds
        assert binding.status.decision is None
        assert not await scene.moves()

    story(act)


def test_a_namespace_that_asks_for_nothing_or_for_what_nobody_knows_is_moved_by_our_own_rules() -> None:
    async def act(scene: Scene) -> None:
        await scene.edit(Namespace, "default", {"metadata": {"annotations": {"trimtab.dev/profile": "reckless"}}})
        binding = await moved_from_one_to_two(scene)
        assert [move.spec.cause for move in await scene.moves()] == ["Rebalance"]
        assert binding.status.decision is not None

    story(act)
