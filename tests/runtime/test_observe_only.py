"""No controller runs on a host that was restored, until it is released."""

import asyncio
from pathlib import Path

import pytest

from trimtab.clock import LoopClock, run_virtually
from trimtab.errors import Unavailable
from trimtab.runtime.observe_only import (
    begin_if_requested,
    begin_observing,
    end_observing,
    reason_to_observe,
    request_observing,
    run_when_released,
)
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store


class Work:
    """Counts how often it was started and whether it runs."""

    def __init__(self) -> None:
        self.starts = 0
        self.runs = False

    async def run(self) -> None:
        self.starts, self.runs = self.starts + 1, True
        try:
            await asyncio.sleep(3600)
        finally:
            self.runs = False


async def new_client() -> LocalClient:
    server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
    await server.start()
    return LocalClient(server)


def test_work_waits_for_the_release_and_stops_when_the_host_is_restored_again() -> None:
    async def run() -> None:
        client, work, reasons = await new_client(), Work(), []
        await begin_observing(client, "restored", LoopClock().now())
        task = asyncio.ensure_future(run_when_released(client, work.run, reasons.append))
        await asyncio.sleep(10)
        assert (work.starts, reasons) == (0, ["restored"])
        assert await end_observing(client)
        await asyncio.sleep(10)
        assert (work.starts, work.runs) == (1, True)
        await begin_observing(client, "restored again", LoopClock().now())
        await asyncio.sleep(10)
        assert (work.starts, work.runs) == (1, False)
        await end_observing(client)
        await asyncio.sleep(10)
        assert (work.starts, work.runs) == (2, True)
        task.cancel()
        await asyncio.wait({task})
        assert not work.runs

    run_virtually(run())


def test_failure_of_the_work_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def run() -> None:
        with pytest.raises(ValueError, match="broken"):
            await run_when_released(await new_client(), fail)

    run_virtually(run())


def test_release_of_a_host_that_is_not_held_does_nothing() -> None:
    async def run() -> None:
        client = await new_client()
        assert await end_observing(client) is False
        await begin_observing(client, "a", LoopClock().now())
        await begin_observing(client, "b", LoopClock().now())
        assert await reason_to_observe(client) == "a"

    run_virtually(run())


class CuttableClient(LocalClient):
    """A client that cannot read, or cannot write, for a while."""

    reads = True
    writes = True

    async def get(self, *arguments):
        if not self.reads:
            raise Unavailable("the connection is cut")
        return await super().get(*arguments)

    async def create(self, *arguments, **more):
        if not self.writes:
            raise Unavailable("the connection is cut")
        return await super().create(*arguments, **more)


def test_nothing_runs_while_it_cannot_be_read_whether_it_may() -> None:
    async def run() -> None:
        client, work = CuttableClient((await new_client())._server), Work()
        await begin_observing(client, "restored", LoopClock().now())
        client.reads = False
        task = asyncio.ensure_future(run_when_released(client, work.run))
        await asyncio.sleep(10)
        assert work.starts == 0
        client.reads = True
        await end_observing(client)
        await asyncio.sleep(10)
        assert work.runs
        task.cancel()
        await asyncio.wait({task})

    run_virtually(run())


def test_restore_asks_for_observing_until_it_has_begun(tmp_path: Path) -> None:
    async def run() -> None:
        client, now = CuttableClient((await new_client())._server), LoopClock().now()
        request_observing(tmp_path)
        client.writes = False
        with pytest.raises(Unavailable):
            await begin_if_requested(tmp_path, client, now)
        client.writes = True
        await begin_if_requested(tmp_path, client, now)
        assert await reason_to_observe(client) == "restored from a backup"
        await end_observing(client)
        await begin_if_requested(tmp_path, client, now)
        assert await reason_to_observe(client) is None, "it was asked for once"

    run_virtually(run())
