"""A fleet of real control planes: a host, three members with pretended kubelets, and our controllers beside them."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import yaml
from click.testing import CliRunner
from compat.flow_compare import Difference
from kube.rig import ControlPlane

from trimtab.api.profile import UPSTREAM
from trimtab.cli.crds import command as crds
from trimtab.client.client import Client, Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import WallClock
from trimtab.errors import ApiFault
from trimtab.members.joining import Facts, join
from trimtab.runtime.cache import Cache
from trimtab.simulate.binder import Binder
from trimtab.simulate.fleet import FleetPlan, MemberPlan, flows_fleet
from trimtab.simulate.kubelet import Kubelets, Shape

T = TypeVar("T")
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
ENTRY = "from trimtab.cli.main import main; main()"
HEARTBEAT_SECONDS = 10.0
"""The controller manager of a real cluster gives up a node that is silent for 50 seconds."""
POLL_SECONDS = 0.5
QUIET_SECONDS = 2.0
"""What must not happen is believed not to happen when nothing was amiss for so long."""
PATIENCE_SECONDS = 30.0


class Loop:
    """An event loop in a thread of its own, so that what lives there goes on between the steps of a test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class RealMember:
    """A real cluster whose nodes and pods are pretended by our kubelets, over HTTP like any client."""

    def __init__(self, plan: MemberPlan, fleet: FleetPlan, directory: Path, *, pods: bool) -> None:
        self.plan = plan
        self.name = plan.name
        self._fleet = fleet
        self.plane = ControlPlane(plan.name, directory, controllers=pods)

    async def start(self) -> None:
        await asyncio.to_thread(self.plane.start)
        self.credentials = load(self.plane.kubeconfig)
        self.client = KubeClient(self.credentials)
        self.cache = Cache(self.client)
        clock, dice = WallClock(), random.Random(self.name)
        shape = Shape(self.name, self._fleet.pace_of(self.plan), HEARTBEAT_SECONDS)
        self.kubelets = Kubelets(self.cache, self.plan.node_plans(), shape, clock=clock, dice=dice)
        self.binder = Binder(self.cache, clock=clock, profile=UPSTREAM, first_fit=True)
        await self.kubelets.start()
        await self.binder.start()

    async def stop(self) -> None:
        for part in (self.binder, self.kubelets):
            await part.stop()
        await self.cache.close()
        await self.client.close()
        await asyncio.to_thread(self.plane.stop)


class Controllers:
    """`trimtab controllers` in a process of its own."""

    def __init__(self, host: ControlPlane, log: Path, *flags: str) -> None:
        self.log = log
        self._command = [sys.executable, "-c", ENTRY, "controllers", "--kubeconfig", str(host.kubeconfig)]
        self._command += flags
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, process_group=0)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(20)
            self.process = None

    def cpu_seconds(self) -> float:
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class RealFleet:
    """The stage of the flows: a host without workload controllers and three members of the recorded sizes."""

    def __init__(self, directory: Path, *, pods: bool = True, host_flags: tuple[str, ...] = ()) -> None:
        """Without pods the members run no workload controllers either: what is propagated stays as it came."""
        self.directory = directory
        self.host = ControlPlane("host", directory, apiserver_flags=host_flags)
        plan = msgspec.structs.replace(flows_fleet(), heartbeat=HEARTBEAT_SECONDS)
        self.real = {member.name: RealMember(member, plan, directory, pods=pods) for member in plan.members}
        self.loop = Loop()
        self.excused: Callable[[Difference], bool] = lambda _: False
        self.client: KubeClient

    def __enter__(self) -> Self:
        try:
            self.loop.do(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.do(self._stop())
        self.loop.close()

    async def _start(self) -> None:
        await asyncio.gather(asyncio.to_thread(self.host.start), *(member.start() for member in self.real.values()))
        self.client = KubeClient(load(self.host.kubeconfig))
        await define(self.client)
        for member in self.real.values():
            facts = Facts(
                provider=member.plan.provider,
                region=member.plan.region,
                zones=tuple(member.plan.zones),
                labels=dict(member.plan.labels),
            )
            await join(self.client, member.client, member.name, member.credentials, facts)

    async def _stop(self) -> None:
        for member in self.real.values():
            with contextlib.suppress(AttributeError):  # one that did not come up has less to stop
                await member.stop()
            member.plane.stop()
        if hasattr(self, "client"):
            await self.client.close()
        self.host.stop()

    def controllers(self, name: str, *flags: str) -> Controllers:
        return Controllers(self.host, self.directory / f"{name}.log", *flags)

    # the stage of a flow

    @property
    def members(self) -> Mapping[str, Client]:
        return {name: member.client for name, member in self.real.items()}

    def look_into(self, member: str) -> Client:
        return self.real[member].client

    async def stop_api(self, member: str) -> None:
        await asyncio.to_thread(self.real[member].plane.stop_apiserver)

    async def start_api(self, member: str) -> None:
        await asyncio.to_thread(self.real[member].plane.start_apiserver)

    async def settle(self, seconds: float, compare: Callable[[], Awaitable[list[Difference]]]) -> list[Difference]:
        """Wait until there is no difference for a while, or until patience ends."""
        deadline = time.monotonic() + seconds + PATIENCE_SECONDS
        quiet_since: float | None = None
        while True:
            found = [difference for difference in await compare() if not self.excused(difference)]
            now = time.monotonic()
            quiet_since = None if found else quiet_since or now
            if now > deadline or (quiet_since is not None and now - quiet_since >= QUIET_SECONDS):
                return found
            await asyncio.sleep(POLL_SECONDS)


async def define(client: Client) -> None:
    """Install our kinds, and wait until they are served: an established one may still be unknown for a moment."""
    wanted = list(definitions())
    for definition in wanted:
        await client.patch(DEFINITIONS, "", definition["metadata"]["name"], definition, type="apply", force=True)
    await until(lambda: _all_established(client))
    for definition in wanted:
        await until(partial(_served, client, definition), pause=0.1)


async def _served(client: Client, definition: dict[str, Any]) -> bool:
    spec = definition["spec"]
    version = next(v["name"] for v in spec["versions"] if v["storage"])
    try:
        await client.list(Resource(spec["group"], version, spec["names"]["plural"], spec["names"]["kind"]))
    except ApiFault:
        return False
    return True


def definitions() -> Iterator[dict[str, Any]]:
    yield from yaml.load_all(CliRunner().invoke(crds).output, Loader=yaml.CSafeLoader)


async def _all_established(client: Client) -> bool:
    listed = (await client.list(DEFINITIONS)).items
    return all(
        any(
            c["type"] == "Established" and c["status"] == "True"
            for c in (item.get("status") or {}).get("conditions", [])
        )
        for item in listed
    )


async def until(true: Callable[[], Awaitable[bool]], seconds: float = 60, pause: float = POLL_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not await true():
        assert time.monotonic() < deadline, "it did not become true in time"
        await asyncio.sleep(pause)
