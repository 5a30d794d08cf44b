"""A control plane that is killed at any write of a leaving cluster loses no copy, and finishes after its restart."""

import asyncio
import random
from typing import Any

import pytest
from move_helpers import MoveScenario, aggregated

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.client.client import Client, resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.member_server import seeded_uids
from trimtab.store.store import Store

CLUSTERS = resource_of(kind_of(Cluster))
WRITES = ("create", "create_together", "patch", "replace", "delete", "submit")
MAX_WRITES = 200
PARTS = 4
"""The writes are tested in this many parts, which may run in parallel."""


class Killed(Exception):
    """The process does not live to send another write."""


class WriteCounter:
    """Counts the writes of the control plane to the host and to members; from the n-th on, none is sent."""

    def __init__(self) -> None:
        self.count = 0
        self.limit: int | None = None
        self.killed = asyncio.Event()

    def admit(self) -> None:
        if self.limit is not None and self.count >= self.limit:
            self.killed.set()
            raise Killed
        self.count += 1


class KilledClient:
    """A client of the control plane whose writes end at a chosen one; reads go on."""

    def __init__(self, client: Client, writes: WriteCounter) -> None:
        self._client = client
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in WRITES:
            return found

        async def write(*args: Any, **kwargs: Any) -> Any:
            if not (args and getattr(args[0], "plural", "") == "events"):
                self._writes.admit()
            return await found(*args, **kwargs)

        return write


def run_departure(kill_at: int | None, *, forced: bool = False) -> int:
    """Let m2 leave and kill the control plane at this write; returns the number of writes without a kill."""

    async def run() -> int:
        rng = random.Random("host")
        uids = seeded_uids(rng)
        host = ApiServer(
            Store(),
            ApiServerSettings(
                clock=LoopClock(), plugins=[PeerWebhooks(uids)], new_uid=uids, token_key=rng.randbytes(32)
            ),
        )
        await host.start()
        writes = WriteCounter()
        members = tuple(MemberPlan(name=name, nodes=1) for name in ("m1", "m2"))
        fleet = EmbeddedFleet(
            FleetPlan(members=members, pace="typical", heartbeat=0),
            host=host,
            clock=LoopClock(),
            wrap_client=lambda client, _: KilledClient(client, writes),  # type: ignore[arg-type,return-value]
        )
        await fleet.start()
        scene = MoveScenario(fleet)
        try:
            await asyncio.sleep(15)
            return await let_m2_leave(scene, writes, kill_at, forced=forced)
        finally:
            await scene.stop()
            await fleet.stop()
            await host.stop()

    return run_virtually(run())


async def let_m2_leave(scene: MoveScenario, writes: WriteCounter, kill_at: int | None, *, forced: bool) -> int:
    await scene.create_deployment(replicas=2)
    await scene.set_taints("m1", "closed:NoSchedule")
    await scene.create_policy(aggregated("m1", "m2"))
    await scene.wait_until_settled("web", {"m2": 2})
    await scene.set_taints("m1")
    await scene.create_budget(maxUnavailable=0)
    await asyncio.sleep(5)
    scene.record_lowest_ready()
    if forced:
        await scene.patch(Cluster, "m2", {"metadata": {"annotations": {"trimtab.dev/force-leave": "true"}}})
    writes.count, writes.limit = 0, kill_at
    await scene.client.delete(CLUSTERS, "", "m2")
    if kill_at is not None:
        async with asyncio.timeout(900):
            await writes.killed.wait()
        await scene.fleet.stop_plane()
        await asyncio.sleep(60)  # what only the dead process knew has expired
        writes.limit = None
        await scene.fleet.start_plane()

    async def is_removed() -> bool:
        names = [cluster.name for cluster in await scene.list_all(Cluster)]
        return names == ["m1"]

    await scene.wait_until(is_removed, 1800)
    await scene.wait_until_settled("web", {"m1": 2}, 300)
    await asyncio.sleep(120)
    await assert_nothing_is_left(scene)
    assert forced or scene.lowest_ready["web"] >= 2
    return writes.count


async def assert_nothing_is_left(scene: MoveScenario) -> None:
    assert scene.ready_pods() == {"m1": 2}
    for resource in await scene.client.resources():
        if resource.namespaced and "list" in resource.verbs and resource.kind != "Event":
            for raw in (await scene.client.list(resource)).items:
                assert raw["metadata"]["namespace"] not in ("m2", "karmada-es-m2"), raw
        elif resource.kind in ("ManagedCluster", "Namespace"):
            names = [raw["metadata"]["name"] for raw in (await scene.client.list(resource)).items]
            assert not {"m2", "karmada-es-m2"} & set(names)
    assert all(move.status.outcome for move in await scene.list_moves())
    binding = await scene.get_binding()
    assert not binding.status.holds
    assert not binding.spec.graceful_eviction_tasks


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("part", range(PARTS))
def test_cluster_leaves_although_the_control_plane_is_killed_at_any_write(part: int, forced: bool) -> None:
    total = run_departure(None, forced=forced)
    assert 8 < total < MAX_WRITES
    for kill_at in range(part, total, PARTS):
        try:
            run_departure(kill_at, forced=forced)
        except Exception as fault:
            raise AssertionError(f"killed at write {kill_at} of {total}") from fault
