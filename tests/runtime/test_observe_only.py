"""No controller runs on a host that was restored, until it is released."""

import asyncio
from pathlib import Path

import pytest

from trimtab.clock import LoopClock, run_virtually
from trimtab.errors import InputError, Unavailable
from trimtab.runtime.control_plane_identity import read_identity
from trimtab.runtime.observe_only import (
    ReleaseGuard,
    begin_observing,
    check_released,
    continue_restore,
    end_observing,
    note_restore,
    reason_to_observe,
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
        await begin_observing(client, "restored")
        task = asyncio.ensure_future(run_when_released(client, work.run, reasons.append))
        await asyncio.sleep(10)
        assert (work.starts, reasons) == (0, ["restored"])
        await end_observing(client)
        await asyncio.sleep(10)
        assert (work.starts, work.runs) == (1, True)
        await begin_observing(client, "restored again")
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


def test_first_reason_to_observe_stays_until_the_release() -> None:
    async def run() -> None:
        client = await new_client()
        await end_observing(client)
        assert await reason_to_observe(client) is None
        await begin_observing(client, "a")
        await begin_observing(client, "b")
        assert await reason_to_observe(client) == "a"
        with pytest.raises(InputError, match="no cluster can join while the host only observes \\(a\\)"):
            await check_released(client, "no cluster can join")
        await end_observing(client)
        await check_released(client, "no cluster can join")

    run_virtually(run())


class CuttableClient(LocalClient):
    """A client that cannot read, or cannot write, for a while."""

    reads = True
    writes = True

    async def get(self, *arguments):
        if not self.reads:
            raise Unavailable("the connection is cut")
        return await super().get(*arguments)

    async def patch(self, *arguments, **more):
        if not self.writes:
            raise Unavailable("the connection is cut")
        return await super().patch(*arguments, **more)


def test_nothing_runs_while_it_cannot_be_read_whether_it_may() -> None:
    async def run() -> None:
        client, work = CuttableClient((await new_client())._server), Work()
        await begin_observing(client, "restored")
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


def test_nothing_is_written_in_members_while_running_controllers_cannot_read_the_mark() -> None:
    """The host may be stopped for a restore: when it answers again, its state may be an older one."""

    async def run() -> None:
        client, work, guard = CuttableClient((await new_client())._server), Work(), ReleaseGuard()
        with pytest.raises(Unavailable):
            guard.check()
        task = asyncio.ensure_future(run_when_released(client, work.run, guard=guard))
        await asyncio.sleep(10)
        guard.check()
        client.reads = False
        await asyncio.sleep(3)
        with pytest.raises(Unavailable, match="nothing is written in members"):
            guard.check()
        assert (work.starts, work.runs) == (1, True), (
            "a host that does not answer for a moment is no reason to start again"
        )
        client.reads = True
        await asyncio.sleep(3)
        guard.check()
        client.reads = False
        await asyncio.sleep(3)
        await begin_observing(LocalClient(client._server), "restored")
        client.reads = True
        await asyncio.sleep(3)
        assert not work.runs
        with pytest.raises(Unavailable):
            guard.check()
        task.cancel()
        await asyncio.wait({task})

    run_virtually(run())


def test_restore_asks_for_observing_until_it_has_begun(tmp_path: Path) -> None:
    async def run() -> None:
        client = CuttableClient((await new_client())._server)
        note_restore(tmp_path, observe=True)
        client.writes = False
        with pytest.raises(Unavailable):
            await continue_restore(tmp_path, client)
        client.writes = True
        await continue_restore(tmp_path, client)
        assert await reason_to_observe(client) == "restored from a backup"
        await end_observing(client)
        await continue_restore(tmp_path, client)
        assert await reason_to_observe(client) is None, "it was asked for once"

    run_virtually(run())


def test_host_that_runs_at_once_after_a_restore_has_another_id_than_its_original(tmp_path: Path) -> None:
    async def run() -> None:
        client = CuttableClient((await new_client())._server)
        original = await read_identity(client)
        note_restore(tmp_path, observe=False)
        client.writes = False
        with pytest.raises(Unavailable):
            await continue_restore(tmp_path, client)
        client.writes = True
        await continue_restore(tmp_path, client)
        copy = await read_identity(client)
        assert copy.own != original.own
        assert copy.former == {original.own}
        await continue_restore(tmp_path, client)
        assert (await read_identity(client), await reason_to_observe(client)) == (copy, None)

    run_virtually(run())
