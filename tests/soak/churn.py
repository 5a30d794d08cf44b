"""Weeks of ordinary work on a fleet in virtual time: workloads come and go, move, and clusters fail and return."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

from move_helpers import MoveScenario, aggregated, divided, dynamic

from soak.growth import Sizes, measure
from soak.recorder import DEPLOYMENTS
from trimtab.api.kind import kind_of
from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.client.client import resource_of
from trimtab.clock import LoopClock, run_virtually
from trimtab.controllers.movement import move_log
from trimtab.decide import fleet as decide_fleet
from trimtab.embedded_fleet import EmbeddedFleet
from trimtab.runtime import cache
from trimtab.runtime.effects import event_recorder
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.storage import object_codec
from trimtab.simulate import member_server
from trimtab.simulate.fleet import FleetPlan, MemberPlan
from trimtab.simulate.member_server import seeded_uids
from trimtab.store.index import Retention
from trimtab.store.store import Store
from trimtab.store.writer_thread import OnDone, WriterThread

MEMBERS = ("m1", "m2", "m3")
HOUR = 3600.0
PLACEMENTS = (divided(("m1", 1), ("m2", 1), ("m3", 2)), aggregated(*MEMBERS), dynamic(*MEMBERS))
SMALL_BOUNDS: tuple[tuple[ModuleType, str, object], ...] = (
    (cache, "MAX_DELETED_REVISIONS", 16),  # more than are deleted at once, else a late response revives one
    (event_recorder, "MAX_REMEMBERED_EVENTS", 16),
    (object_codec, "_MAX_RECENT_BYTES", 60_000),
    (decide_fleet, "_MAX_CHANGES", 16),
    (decide_fleet, "_MAX_BYTES", 60_000),
    (move_log, "KEPT_WITHOUT_OBJECT", timedelta(days=1)),
    (member_server, "RETENTION", member_server.RETENTION._replace(plain_bytes=60_000)),
)
"""Caches and logs that may hold so much are full after the first days; all others have to stay as they are."""
HOST_RETENTION = Retention(plain_bytes=60_000)
POLICIES = resource_of(kind_of(PropagationPolicy))
REBALANCERS = resource_of(kind_of(WorkloadRebalancer))


class Churn:
    """The same work every day, with new names each time; everything of a day is gone at its end."""

    def __init__(self, scenario: MoveScenario, apps: int) -> None:
        self._scenario = scenario
        self._apps = apps

    async def work_for_a_day(self, day: int) -> None:
        names = [f"app{day}-{number}" for number in range(self._apps)]
        for number, name in enumerate(names):
            await self._scenario.create_deployment(name, replicas=3, labels={"app": name})
            await self._create_policy(name, number)
        await asyncio.sleep(HOUR)
        for number in range(2):
            job = f"again{day}-{number}"
            await self._scenario.create_rebalancer(*names, job=job)
            await asyncio.sleep(HOUR)
            await self._scenario.client.delete(REBALANCERS, "", job)
            await self._drain(MEMBERS[number])
        self._scenario.world["m3"].partition()
        await asyncio.sleep(HOUR)
        self._scenario.world["m3"].heal()
        await asyncio.sleep(HOUR)
        for name in names:
            await self._scenario.client.patch(DEPLOYMENTS, "default", name, {"spec": {"replicas": 5}})
        await asyncio.sleep(HOUR)
        for name in names:
            await self._scenario.client.delete(DEPLOYMENTS, "default", name)
            await self._scenario.client.delete(POLICIES, "default", name)
        await asyncio.sleep(24 * HOUR - asyncio.get_running_loop().time() % (24 * HOUR))

    async def _create_policy(self, name: str, number: int) -> None:
        spec = {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
            "placement": PLACEMENTS[number % len(PLACEMENTS)],
        }
        kind = kind_of(PropagationPolicy)
        metadata = {"name": name, "namespace": "default"}
        await self._scenario.create(
            {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": spec}
        )

    async def _drain(self, member: str) -> None:
        await self._scenario.set_taints(member, "maintenance:NoExecute")
        await asyncio.sleep(HOUR)
        await self._scenario.set_taints(member)
        await asyncio.sleep(HOUR)


def run_days(days: int, apps: int, directory: Path) -> list[Sizes]:
    """Run so many days; returns what was measured at the end of each."""

    async def run() -> list[Sizes]:
        rng = random.Random("churn")
        uids = seeded_uids(rng)
        settings = ApiServerSettings(
            clock=LoopClock(), plugins=[PeerWebhooks(uids)], new_uid=uids, token_key=rng.randbytes(32)
        )
        host = ApiServer(Store.open(directory, HOST_RETENTION), settings)
        await host.start()
        plan = FleetPlan(
            members=tuple(MemberPlan(name=name, nodes=1) for name in MEMBERS), pace="typical", heartbeat=300
        )
        fleet = EmbeddedFleet(plan, host=host, clock=LoopClock(), probe_seconds=60)
        await fleet.start()
        scenario = MoveScenario(fleet)
        try:
            churn = Churn(scenario, apps)
            points = []
            for day in range(days):
                await churn.work_for_a_day(day)
                points.append(measure(directory))
            return points
        finally:
            await scenario.stop()
            await fleet.stop()
            await host.stop()

    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(WriterThread, "submit", write_at_once))
        for module, name, value in SMALL_BOUNDS:
            stack.enter_context(patch.object(module, name, value))
        return run_virtually(run())


def write_at_once(_: WriterThread, work: Callable[[], None], on_done: OnDone) -> None:
    """Write in the loop: virtual time would run on while another thread writes."""
    work()
    asyncio.get_running_loop().call_soon(on_done, None)
