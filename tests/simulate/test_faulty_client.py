import asyncio
from typing import Any, cast

import pytest

from trimtab.client.client import Client, Listing, Resource
from trimtab.clock import run_virtually
from trimtab.simulate.faulty_client import FaultyMemberClient

PODS = Resource("", "v1", "pods", "Pod")
POD = {"metadata": {"name": "web", "managedFields": [{"manager": "kubelet"}]}}


class ListingClient:
    """Returns one pod, and calls `during` while a request is in progress."""

    def __init__(self) -> None:
        self.requests = 0
        self.during: Any = lambda: None

    async def list(self, *args: Any, **options: Any) -> Listing:
        self.requests += 1
        self.during()
        return Listing([POD], "1")


def with_faults() -> tuple[FaultyMemberClient, ListingClient]:
    inner = ListingClient()
    return FaultyMemberClient(cast("Client", inner), "one"), inner


def test_cut_off_refuses_requests_without_forwarding_them_until_restored() -> None:
    async def scenario() -> None:
        client, inner = with_faults()
        client.cut_off()
        with pytest.raises(ConnectionRefusedError, match="one"):
            await client.list(PODS)
        assert (client.is_cut_off, inner.requests) == (True, 0)
        client.restore()
        assert len((await client.list(PODS)).items) == 1

    run_virtually(scenario())


def test_request_that_is_cut_off_in_progress_is_executed_but_its_response_is_lost() -> None:
    async def scenario() -> None:
        client, inner = with_faults()
        inner.during = client.cut_off
        with pytest.raises(ConnectionRefusedError):
            await client.list(PODS)
        assert inner.requests == 1

    run_virtually(scenario())


def test_paused_client_lets_requests_wait_until_it_is_resumed() -> None:
    async def scenario() -> None:
        client, inner = with_faults()
        client.pause()
        request = asyncio.ensure_future(client.list(PODS))
        await asyncio.sleep(10)
        assert (request.done(), inner.requests) == (False, 0)
        client.resume()
        assert (await request).revision == "1"

    run_virtually(scenario())
