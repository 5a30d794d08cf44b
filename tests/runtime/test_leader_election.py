"""Of several control planes on one API server, one leads and the others wait."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from fake_clocks import SteppingClock
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials, ExecPlugin
from trimtab.clock import LoopClock, WallClock, run_virtually
from trimtab.errors import Unavailable
from trimtab.runtime.leader_election import LEASES, LeaderElector, LeaseLost
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store


class CuttableClient(LocalClient):
    """A client whose connection can be cut, or whose requests can hang."""

    cut = False
    hangs = False

    async def get(self, *arguments):
        if self.cut:
            raise Unavailable("the connection is cut")
        if self.hangs:
            await asyncio.sleep(3600)
        return await super().get(*arguments)


class Candidates:
    """Candidates of one server, and the ones that currently lead."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.clock = SteppingClock()
        self.leading: set[str] = set()
        self.clients: dict[str, CuttableClient] = {}
        self.elections: dict[str, LeaderElector] = {}

    def start(self, name: str) -> asyncio.Task[None]:
        self.clients[name] = CuttableClient(self.server)
        election = self.elections[name] = LeaderElector(self.clients[name], self.clock, name)

        async def work() -> None:
            assert not self.leading, "two candidates lead at once"
            self.leading.add(name)
            try:
                await asyncio.Event().wait()
            finally:
                self.leading.discard(name)

        return asyncio.ensure_future(election.run_as_leader(work))

    async def lease(self) -> dict:
        spec: dict = (await LocalClient(self.server).get(LEASES, "kube-system", "trimtab-controllers"))["spec"]
        return spec


def run_scenario(scenario: Callable[[Candidates], Awaitable[None]]) -> None:
    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        try:
            await scenario(Candidates(server))
        finally:
            await server.stop()

    run_virtually(run())


def test_only_one_candidate_leads() -> None:
    async def scenario(candidates: Candidates) -> None:
        first, second = candidates.start("first"), candidates.start("second")
        await asyncio.sleep(120)
        assert candidates.leading == {"first"}
        lease = await candidates.lease()
        assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("first", 0)
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)

    run_scenario(scenario)


def test_stopped_leader_releases_the_lease_at_once() -> None:
    async def scenario(candidates: Candidates) -> None:
        first, second = candidates.start("first"), candidates.start("second")
        await asyncio.sleep(5)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await asyncio.sleep(2.5)
        assert candidates.leading == {"second"}
        assert (await candidates.lease())["leaseTransitions"] == 1
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)

    run_scenario(scenario)


def test_disconnected_leader_stops_before_another_takes_over() -> None:
    async def scenario(candidates: Candidates) -> None:
        first, second = candidates.start("first"), candidates.start("second")
        await asyncio.sleep(5)
        candidates.clients["first"].cut = True
        await asyncio.sleep(13)
        assert candidates.leading == set()
        assert first.done()
        await asyncio.sleep(7)
        assert candidates.leading == {"second"}
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)

    run_scenario(scenario)


def test_leader_whose_renewal_hangs_stops_before_another_takes_over() -> None:
    async def scenario(candidates: Candidates) -> None:
        first, second = candidates.start("first"), candidates.start("second")
        await asyncio.sleep(5)
        candidates.clients["first"].hangs = True
        await asyncio.sleep(10)
        assert candidates.leading == set()
        await asyncio.sleep(10)
        assert candidates.leading == {"second"}
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)

    run_scenario(scenario)


def test_candidate_whose_request_hangs_tries_again() -> None:
    async def scenario(candidates: Candidates) -> None:
        task = candidates.start("first")
        candidates.clients["first"].hangs = True
        await asyncio.sleep(5)
        candidates.clients["first"].hangs = False
        await asyncio.sleep(15)
        assert candidates.leading == {"first"}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_scenario(scenario)


def test_writes_are_refused_before_and_after_the_lease_is_held() -> None:
    async def scenario(candidates: Candidates) -> None:
        task = candidates.start("first")
        election = candidates.elections["first"]
        with pytest.raises(LeaseLost):
            election.check_held()
        await asyncio.sleep(5)
        election.check_held()
        candidates.clients["first"].cut = True
        await asyncio.sleep(10)
        with pytest.raises(LeaseLost):
            election.check_held()
        await asyncio.gather(task, return_exceptions=True)

    run_scenario(scenario)


def test_leader_that_has_released_its_lease_refuses_to_write() -> None:
    async def scenario(candidates: Candidates) -> None:
        task = candidates.start("first")
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(LeaseLost):
            candidates.elections["first"].check_held()

    run_scenario(scenario)


def test_paused_leader_refuses_to_write_before_its_loop_notices() -> None:
    async def scenario(candidates: Candidates) -> None:
        paused = 0.0
        loop = asyncio.get_running_loop()
        client = LocalClient(candidates.server)
        election = LeaderElector(client, candidates.clock, "first", monotonic=lambda: loop.time() + paused)
        task = asyncio.ensure_future(election.run_as_leader(asyncio.Event().wait))
        await asyncio.sleep(5)
        election.check_held()
        paused = 60.0
        with pytest.raises(LeaseLost):
            election.check_held()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_scenario(scenario)


def test_leader_stops_at_once_when_it_sees_another_holder() -> None:
    async def scenario(candidates: Candidates) -> None:
        task = candidates.start("first")
        await asyncio.sleep(5)
        client = LocalClient(candidates.server)
        lease = await client.get(LEASES, "kube-system", "trimtab-controllers")
        await client.replace(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": "other"}})
        await asyncio.sleep(2.5)
        assert task.done()
        assert (await candidates.lease())["holderIdentity"] == "other"

    run_scenario(scenario)


@pytest.mark.parametrize("days", [100, -100])
def test_candidate_waits_for_the_whole_lease_when_the_clock_is_set(days: int) -> None:
    async def scenario(candidates: Candidates) -> None:
        first, second = candidates.start("first"), candidates.start("second")
        await asyncio.sleep(5)
        candidates.clients["first"].cut = True  # it leads for ten more seconds, and its lease is good for fifteen
        await asyncio.sleep(3)
        candidates.clock.offset = timedelta(days=days)
        await asyncio.sleep(4)
        assert candidates.leading == {"first"}
        await asyncio.sleep(20)
        assert candidates.leading == {"second"}
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)

    run_scenario(scenario)


def test_failing_work_releases_the_lease_and_raises() -> None:
    async def scenario(candidates: Candidates) -> None:
        async def work() -> None:
            raise RuntimeError("a bug")

        election = LeaderElector(LocalClient(candidates.server), candidates.clock, "first")
        (failure,) = await asyncio.gather(election.run_as_leader(work), return_exceptions=True)
        assert str(failure) == "a bug"
        assert (await candidates.lease())["holderIdentity"] == ""

    run_scenario(scenario)


def test_candidate_with_failing_exec_plugin_keeps_trying(tmp_path: Path) -> None:
    calls = tmp_path / "asked"

    async def scenario() -> None:
        login = ExecPlugin("/bin/sh", ("-c", f"echo calls >> {calls}; exit 1"))
        client = KubeClient(Credentials(server="http://127.0.0.1:1", exec=login))
        candidate = asyncio.ensure_future(
            LeaderElector(client, WallClock(), "first", retry_seconds=0.01).run_as_leader(nothing)
        )
        while not calls.exists() or len(calls.read_text().splitlines()) < 3:
            done, _ = await asyncio.wait({candidate}, timeout=0.01)
            assert not done
        candidate.cancel()
        await asyncio.gather(candidate, return_exceptions=True)
        await client.close()

    async def nothing() -> None:
        """Never called: no candidate becomes leader."""

    asyncio.run(scenario())


def test_waiting_and_leading_processes_report_how_often_the_lease_changed_hands() -> None:
    async def scenario(candidates: Candidates) -> None:
        first = candidates.start("a")
        await asyncio.sleep(5)
        second = candidates.start("b")
        await asyncio.sleep(5)
        assert [sample.value for sample in candidates.elections["b"].samples()] == [0]
        first.cancel()
        await asyncio.sleep(10)
        assert candidates.leading == {"b"}
        (sample,) = candidates.elections["b"].samples()
        assert (sample.name, sample.value) == ("trimtab_lease_transitions_total", 1)
        second.cancel()

    run_scenario(scenario)


def test_lease_is_held_from_the_time_before_the_request_that_took_it() -> None:
    class SlowClient(LocalClient):
        async def create(self, *arguments, **more):
            await asyncio.sleep(4)  # the server has written the time of the request, the answer comes late
            return await super().create(*arguments, **more)

    async def scenario(candidates: Candidates) -> None:
        election = LeaderElector(SlowClient(candidates.server), candidates.clock, "slow", renew_deadline_seconds=10.0)
        assert await election._try_claim(10.0)
        await asyncio.sleep(5.9)
        election.check_held()
        await asyncio.sleep(0.2)
        with pytest.raises(LeaseLost):
            election.check_held()

    run_scenario(scenario)


def test_of_two_processes_that_create_the_lease_at_once_one_holds_it() -> None:
    class LateClient(LocalClient):
        async def create(self, *arguments, **more):
            await asyncio.sleep(1)  # both have read that there is no lease
            return await super().create(*arguments, **more)

    async def scenario(candidates: Candidates) -> None:
        elections = [LeaderElector(LateClient(candidates.server), candidates.clock, name) for name in "ab"]
        claimed = await asyncio.gather(*(election._try_claim(10.0) for election in elections))
        assert sorted(claimed) == [False, True]
        holder = elections[claimed.index(True)].identity
        assert (await candidates.lease())["holderIdentity"] == holder

    run_scenario(scenario)


def test_the_lease_is_released_only_when_the_work_has_ended() -> None:
    """What is still being written would otherwise mix with the writes of the next leader."""

    async def scenario(candidates: Candidates) -> None:
        election = LeaderElector(LocalClient(candidates.server), candidates.clock, "first")
        holders = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(1)
                holders.append((await candidates.lease())["holderIdentity"])

        leader = asyncio.ensure_future(election.run_as_leader(work))
        await asyncio.sleep(5)
        leader.cancel()
        await asyncio.gather(leader, return_exceptions=True)
        assert holders == ["first"]
        assert (await candidates.lease())["holderIdentity"] == ""

    run_scenario(scenario)
