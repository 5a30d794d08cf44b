"""Freezing and thawing all moves of a control plane, in its DisruptionPolicy."""

from trimtab.client.freeze import current_user, find_disruption_policy, freeze_moves, thaw_moves
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store


async def new_client() -> LocalClient:
    server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
    await server.start()
    return LocalClient(server)


def test_freeze_creates_the_policy_and_a_second_one_has_the_new_reason() -> None:
    async def scenario() -> None:
        client = await new_client()
        assert await find_disruption_policy(client) is None
        await thaw_moves(client)
        assert await find_disruption_policy(client) is None, "there is nothing to release"
        for reason in ("wrong weights", "still wrong"):
            await freeze_moves(client, reason)
            policy = await find_disruption_policy(client)
            assert policy is not None
            assert policy.spec.freeze is not None
            assert policy.spec.freeze.reason == reason
            assert policy.spec.freeze.by == await current_user(client)
            assert policy.spec.freeze.since is not None

    run_virtually(scenario())


def test_thaw_releases_the_moves_and_keeps_the_policy() -> None:
    async def scenario() -> None:
        client = await new_client()
        await freeze_moves(client, "")
        await thaw_moves(client)
        policy = await find_disruption_policy(client)
        assert policy is not None
        assert policy.spec.freeze is None

    run_virtually(scenario())
