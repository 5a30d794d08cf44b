"""Processes that share members: each member has at most one owner, and soon exactly one, whatever ends or hangs."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers.clusters.ownership import member_lease
from trimtab.errors import Unavailable
from trimtab.runtime.leader_election import LEASES, LeaseLost
from trimtab.runtime.member_claims import PROCESS_PREFIX, MemberClaims
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

SETTLED_SECONDS = 60.0


class CuttableClient(LocalClient):
    """A client whose connection can be cut, or slow."""

    cut = False
    replace_seconds = 0.0
    create_seconds = 0.0

    async def create(self, *arguments, **more):
        await asyncio.sleep(self.create_seconds)
        return await super().create(*arguments, **more)

    async def list(self, *arguments, **more):
        if self.cut:
            raise Unavailable("the connection is cut")
        return await super().list(*arguments, **more)

    async def replace(self, *arguments, **more):
        if self.cut:
            raise Unavailable("the connection is cut")
        await asyncio.sleep(self.replace_seconds)
        return await super().replace(*arguments, **more)


class Process:
    """A process that serves members, as its claims tell it."""

    def __init__(self, name: str, fleet: "Fleet") -> None:
        self.name = name
        self._fleet = fleet
        self.client = CuttableClient(fleet.server)
        self.serving: set[str] = set()
        self.paused_seconds = 0.0
        loop = asyncio.get_running_loop()
        self.claims = MemberClaims(
            self.client, LoopClock(), name, namespace="default", monotonic=lambda: loop.time() + self.paused_seconds
        )
        self.task = asyncio.ensure_future(self.claims.run(self))

    def push_members(self) -> list[str]:
        return self._fleet.members

    def start_serving(self, member: str) -> None:
        self.serving.add(member)

    async def stop_serving(self, member: str) -> None:
        await asyncio.sleep(self._fleet.finish_seconds)  # a reconcile is in progress
        self.serving.discard(member)

    def may_write(self, member: str) -> bool:
        try:
            self.claims.check_held(member)
        except LeaseLost:
            return False
        return member in self.serving

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def kill(self) -> None:
        """End without releasing anything."""
        self.client.cut = True
        await self.stop()
        self.serving.clear()


class Fleet:
    """Members and processes on one API server."""

    def __init__(self, server: ApiServer, members: int) -> None:
        self.server = server
        self.members = [f"m{n}" for n in range(members)]
        self.processes: dict[str, Process] = {}
        self.finish_seconds = 0.0
        self.watching = asyncio.ensure_future(self._watch())

    def start(self, name: str) -> Process:
        self.processes[name] = Process(name, self)
        return self.processes[name]

    def owners(self) -> dict[str, list[str]]:
        return {
            member: [one.name for one in self.processes.values() if one.may_write(member)] for member in self.members
        }

    async def _watch(self) -> None:
        while True:
            for member, owners in self.owners().items():
                assert len(owners) <= 1, f"{member} has the owners {owners}"
            await asyncio.sleep(0.1)

    def check_watch(self) -> None:
        if self.watching.done():
            self.watching.result()

    def counts(self) -> list[int]:
        return sorted(len(one.claims.held_members) for one in self.processes.values())


def run_scenario(members: int, scenario: Callable[[Fleet], Awaitable[None]]) -> None:
    async def run() -> None:
        server = ApiServer(Store(), ApiServerSettings(clock=LoopClock()))
        await server.start()
        fleet = Fleet(server, members)
        try:
            await scenario(fleet)
            fleet.check_watch()
        finally:
            for process in fleet.processes.values():
                await process.stop()
            fleet.watching.cancel()
            await server.stop()

    run_virtually(run())


def all_owned(fleet: Fleet) -> bool:
    return all(len(owners) == 1 for owners in fleet.owners().values())


def test_single_process_serves_every_member() -> None:
    async def scenario(fleet: Fleet) -> None:
        fleet.start("a")
        await asyncio.sleep(5)
        assert all_owned(fleet)
        assert fleet.counts() == [7]

    run_scenario(7, scenario)


def test_second_process_gets_its_share_after_running_work_ended() -> None:
    async def scenario(fleet: Fleet) -> None:
        fleet.finish_seconds = 1.0
        first = fleet.start("a")
        await asyncio.sleep(5)
        fleet.start("b")
        await asyncio.sleep(SETTLED_SECONDS)
        assert all_owned(fleet)
        assert fleet.counts() == [4, 4]
        assert len(first.serving) == 4

    run_scenario(8, scenario)


def test_third_process_takes_part_also_where_members_do_not_divide() -> None:
    async def scenario(fleet: Fleet) -> None:
        for name in "abc":
            fleet.start(name)
        await asyncio.sleep(SETTLED_SECONDS)
        assert all_owned(fleet)
        assert min(fleet.counts()) >= 2
        assert max(fleet.counts()) <= 4

    run_scenario(8, scenario)


def test_members_of_a_killed_process_get_another_owner_when_their_leases_end() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.start("a")
        fleet.start("b")
        await asyncio.sleep(SETTLED_SECONDS)
        held = first.claims.held_members
        assert held
        await first.kill()
        await asyncio.sleep(10)
        assert not any(fleet.owners()[member] for member in held)  # never before the lease has ended
        await asyncio.sleep(SETTLED_SECONDS)
        assert all_owned(fleet)

    run_scenario(6, scenario)


def test_stopped_process_releases_its_members_at_once() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.start("a")
        fleet.start("b")
        await asyncio.sleep(SETTLED_SECONDS)
        await first.stop()
        await asyncio.sleep(5)
        assert all_owned(fleet)

    run_scenario(2, scenario)


def test_process_that_cannot_renew_stops_writing_before_another_begins() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.start("a")
        await asyncio.sleep(5)
        fleet.start("b")
        first.client.cut = True
        await asyncio.sleep(12)
        assert not first.serving
        await asyncio.sleep(SETTLED_SECONDS)
        assert all_owned(fleet)

    run_scenario(4, scenario)


def test_paused_process_refuses_to_write() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.start("a")
        await asyncio.sleep(5)
        assert first.may_write("m0")
        first.paused_seconds = 60.0
        assert not first.may_write("m0")

    run_scenario(1, scenario)


def test_member_whose_lease_another_process_holds_is_not_renewed() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.start("a")
        await asyncio.sleep(5)
        client = LocalClient(fleet.server)
        lease = await client.get(LEASES, "default", member_lease("m0"))
        await client.replace(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": "other"}})
        await asyncio.sleep(2.5)
        assert not first.may_write("m0")
        lease = await client.get(LEASES, "default", member_lease("m0"))
        assert lease["spec"]["holderIdentity"] == "other"

    run_scenario(1, scenario)


def test_member_is_held_from_the_time_before_the_request_that_renewed_its_lease() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.start("a")
        await asyncio.sleep(5)
        first.client.replace_seconds = 4.0
        await asyncio.sleep(9.5)  # announced from 6 to 10, renewed from 10 to 14
        first.client.cut = True
        await asyncio.sleep(5)
        assert first.may_write("m0")
        await asyncio.sleep(1)
        assert not first.may_write("m0")

    run_scenario(1, scenario)


def test_announcement_of_a_process_that_renewed_it_meanwhile_is_not_removed() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.start("a")
        await asyncio.sleep(1)
        client = LocalClient(fleet.server)
        name = f"{PROCESS_PREFIX}a"
        seen = await client.get(LEASES, "default", name)
        renewed = await client.replace(LEASES, seen | {"spec": seen["spec"] | {"renewTime": None}})
        await first.claims._forget_process(seen)
        assert await client.get(LEASES, "default", name) == renewed

    run_scenario(1, scenario)


def test_member_that_left_is_released() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.start("a")
        await asyncio.sleep(5)
        fleet.members.remove("m1")
        await asyncio.sleep(5)
        assert first.claims.held_members == ["m0"]
        lease = await LocalClient(fleet.server).get(LEASES, "default", member_lease("m1"))
        assert lease["spec"]["holderIdentity"] == ""

    run_scenario(2, scenario)


@pytest.mark.parametrize("seed", range(8))
def test_no_member_ever_has_two_owners_and_all_have_one_in_the_end(seed: int) -> None:
    """A model of processes that start, stop, are killed, cut off and connected again at random."""
    rng = random.Random(seed)

    async def scenario(fleet: Fleet) -> None:
        fleet.finish_seconds = rng.choice((0.0, 0.5, 3.0))
        for number in range(30):
            running = [one for one in fleet.processes.values() if not one.task.done()]
            action = rng.choice(("start", "stop", "kill", "cut", "connect", "join", "leave"))
            if action == "start" and len(running) < 5:
                fleet.start(f"p{number}")
            elif action in ("stop", "kill") and running:
                await getattr(rng.choice(running), action)()
            elif action in ("cut", "connect") and running:
                rng.choice(running).client.cut = action == "cut"
            elif action == "join":
                fleet.members.append(f"new{number}")
            elif action == "leave" and len(fleet.members) > 1:
                fleet.members.remove(rng.choice(fleet.members))
            await asyncio.sleep(rng.uniform(0.1, 20))
            fleet.check_watch()
        for process in fleet.processes.values():
            process.client.cut = False
        fleet.start("last")
        await asyncio.sleep(2 * SETTLED_SECONDS)
        fleet.check_watch()
        assert all_owned(fleet), fleet.owners()

    run_scenario(6, scenario)


def test_a_process_that_ends_leaves_the_lease_of_the_next_owner_alone() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.start("first")
        await asyncio.sleep(5)
        lease = await first.client.get(LEASES, "default", member_lease("m0"))
        await first.client.replace(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": "second"}})
        await first.stop()
        lease = await LocalClient(fleet.server).get(LEASES, "default", member_lease("m0"))
        assert lease["spec"]["holderIdentity"] == "second"

    run_scenario(1, scenario)


def test_no_process_claims_more_than_its_share_and_one() -> None:
    """A process that is faster than the others leaves them theirs."""

    async def scenario(fleet: Fleet) -> None:
        processes = [fleet.start(name) for name in ("a", "b", "c")]
        await asyncio.sleep(10)
        fleet.members += [f"m{n}" for n in range(9)]
        for _ in range(100):
            await asyncio.sleep(0.1)
            assert max(len(one.claims.held_members) for one in processes) <= 4
        assert all_owned(fleet)

    run_scenario(0, scenario)


def test_member_is_held_from_the_time_before_the_request_that_claimed_it() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.start("a")
        await asyncio.sleep(5)
        first.client.create_seconds = 4.0
        fleet.members.append("m0")
        await asyncio.sleep(5.5)  # claimed from 6 to 10
        first.client.cut = True
        assert first.may_write("m0")
        await asyncio.sleep(6)
        assert not first.may_write("m0")

    run_scenario(0, scenario)
