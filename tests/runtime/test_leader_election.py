"""Of several control planes on one API server, one works and the others wait their turn."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials, Plugin
from trimtab.clock import LoopClock, WallClock, run_virtually
from trimtab.errors import Unavailable
from trimtab.runtime.leader_election import LEASES, Election
from trimtab.server.apiserver import ApiServer, Settings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store


class Line(LocalClient):
    """A connection that may be cut."""

    cut = False

    async def get(self, *arguments):
        if self.cut:
            raise Unavailable("the line is cut")
        return await super().get(*arguments)


class Candidates:
    """Candidates of one server, and who was seen working when."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.clock = LoopClock()
        self.working: set[str] = set()
        self.lines: dict[str, Line] = {}

    def stand(self, name: str) -> asyncio.Task[None]:
        self.lines[name] = Line(self.server)
        election = Election(self.lines[name], self.clock, name)

        async def work() -> None:
            assert not self.working, "two lead at once"
            self.working.add(name)
            try:
                await asyncio.Event().wait()
            finally:
                self.working.discard(name)

        return asyncio.ensure_future(election.lead(work))

    async def lease(self) -> dict:
        spec: dict = (await LocalClient(self.server).get(LEASES, "kube-system", "trimtab-controllers"))["spec"]
        return spec


def play(story: Callable[[Candidates], Awaitable[None]]) -> None:
    async def run() -> None:
        server = ApiServer(Store(), Settings(clock=LoopClock()))
        await server.start()
        try:
            await story(Candidates(server))
        finally:
            await server.stop()

    run_virtually(run())


def test_only_one_leads_and_the_other_waits() -> None:
    async def story(candidates: Candidates) -> None:
        first, second = candidates.stand("first"), candidates.stand("second")
        await asyncio.sleep(120)
        assert candidates.working == {"first"}
        lease = await candidates.lease()
        assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("first", 0)
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)

    play(story)


def test_a_leader_that_stops_lets_the_next_one_in_at_once() -> None:
    async def story(candidates: Candidates) -> None:
        first, second = candidates.stand("first"), candidates.stand("second")
        await asyncio.sleep(5)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await asyncio.sleep(2.5)
        assert candidates.working == {"second"}
        assert (await candidates.lease())["leaseTransitions"] == 1
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)

    play(story)


def test_a_leader_that_is_cut_off_stops_before_another_takes_over() -> None:
    async def story(candidates: Candidates) -> None:
        first, second = candidates.stand("first"), candidates.stand("second")
        await asyncio.sleep(5)
        candidates.lines["first"].cut = True
        await asyncio.sleep(13)
        assert candidates.working == set()
        assert first.done()
        await asyncio.sleep(7)
        assert candidates.working == {"second"}
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)

    play(story)


def test_work_that_fails_gives_the_lease_back_and_tells() -> None:
    async def story(candidates: Candidates) -> None:
        async def work() -> None:
            raise RuntimeError("a defect")

        election = Election(LocalClient(candidates.server), candidates.clock, "first")
        (failure,) = await asyncio.gather(election.lead(work), return_exceptions=True)
        assert str(failure) == "a defect"
        assert (await candidates.lease())["holderIdentity"] == ""

    play(story)


def test_a_candidate_whose_exec_plugin_fails_goes_on_standing(tmp_path: Path) -> None:
    asked = tmp_path / "asked"

    async def story() -> None:
        login = Plugin("/bin/sh", ("-c", f"echo asked >> {asked}; exit 1"))
        client = KubeClient(Credentials(server="http://127.0.0.1:1", exec=login))
        candidate = asyncio.ensure_future(Election(client, WallClock(), "first", retry_seconds=0.01).lead(nothing))
        while not asked.exists() or len(asked.read_text().splitlines()) < 3:
            given_up, _ = await asyncio.wait({candidate}, timeout=0.01)
            assert not given_up
        candidate.cancel()
        await asyncio.gather(candidate, return_exceptions=True)
        await client.close()

    async def nothing() -> None:
        """Nobody ever leads here."""

    asyncio.run(story())
