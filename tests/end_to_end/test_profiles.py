"""The profile annotation of a namespace applies to its bindings only."""

import asyncio

from move_helpers import MoveScenario, divided, run_scenario

from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.work import ResourceBinding

SHARES = divided(("m1", 1), ("m2", 1))


async def rebalance_from_m1_to_m2(scenario: MoveScenario) -> ResourceBinding:
    """The binding shortly after a rebalance that removes replicas from m1 was requested."""
    await scenario.set_taints("m2", "closed:NoSchedule")
    await scenario.create_deployment(replicas=4)
    await scenario.create_policy(SHARES)
    await scenario.wait_until_settled("web", {"m1": 4})
    await scenario.set_taints("m2")
    await asyncio.sleep(12)
    await scenario.create_rebalancer("web")
    await asyncio.sleep(0.5)
    return await scenario.get_binding()


def test_a_namespace_with_profile_upstream_moves_at_once_and_gets_no_fields_of_our_own() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.patch(Namespace, "default", {"metadata": {"annotations": {"trimtab.dev/profile": "upstream"}}})
        binding = await rebalance_from_m1_to_m2(scenario)
        assert {target.name: target.replicas for target in binding.spec.clusters} == {"m1": 2, "m2": 2}
        assert not binding.status.holds
        assert binding.status.decision is None
        assert not await scenario.list_moves()

    run_scenario(steps)


def test_a_namespace_with_an_unknown_profile_uses_the_default() -> None:
    async def steps(scenario: MoveScenario) -> None:
        await scenario.patch(Namespace, "default", {"metadata": {"annotations": {"trimtab.dev/profile": "reckless"}}})
        binding = await rebalance_from_m1_to_m2(scenario)
        assert [move.spec.cause for move in await scenario.list_moves()] == ["Rebalance"]
        assert binding.status.decision is not None

    run_scenario(steps)
