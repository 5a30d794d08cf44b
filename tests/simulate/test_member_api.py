"""How a simulated member is reached: cut off, delayed, with a stopped API server."""

import asyncio

import pytest

from trimtab.client.client import Client, Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.member_api import KUBELET_HEAD_START_SECONDS, MemberApi
from trimtab.store.store import Store

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


async def new_member() -> MemberApi:
    server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
    await server.start()
    return MemberApi("m1", server)


async def answers(client: Client) -> bool:
    try:
        await asyncio.wait_for(client.list(NAMESPACES), 60)
    except (OSError, TimeoutError):
        return False
    return True


def test_partition_affects_only_what_comes_from_outside() -> None:
    async def scenario() -> None:
        member = await new_member()
        member.partition()
        assert not member.is_reachable
        assert not await answers(member.client)
        assert await answers(member.internal_client)
        member.heal()
        assert await answers(member.client)

    run_virtually(scenario())


def test_components_wait_while_the_api_server_is_stopped_and_kubelets_continue_first() -> None:
    async def scenario() -> None:
        member = await new_member()
        member.stop_api()
        assert not await answers(member.client)
        inside = asyncio.ensure_future(member.internal_client.list(NAMESPACES))
        kubelet = asyncio.ensure_future(member._kubelet_client.list(NAMESPACES))
        await asyncio.sleep(10)
        assert not inside.done()
        assert not kubelet.done()
        member.start_api()
        await asyncio.sleep(KUBELET_HEAD_START_SECONDS / 2)
        assert (kubelet.done(), inside.done()) == (True, False)
        await asyncio.sleep(KUBELET_HEAD_START_SECONDS)
        assert inside.done()

    run_virtually(scenario())


@pytest.mark.parametrize("seconds", [0.0, 3.0])
def test_requests_from_outside_can_be_delayed(seconds: float) -> None:
    async def scenario() -> float:
        member = await new_member()
        member.delay_requests(seconds)
        before = asyncio.get_running_loop().time()
        await member.client.list(NAMESPACES)
        return asyncio.get_running_loop().time() - before

    assert run_virtually(scenario()) == pytest.approx(seconds, abs=0.01)
