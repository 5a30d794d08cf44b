"""A fleet of real control planes: a host, three members with simulated kubelets, and our controllers."""

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
from typing import Any, Self, TypeVar, cast

import yaml
from click.testing import CliRunner
from kube.rig import RealControlPlane

from trimtab.cli.commands.crds import command as crds
from trimtab.cli.commands.join import command as join
from trimtab.client.client import Client, Listing, Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.clock import WallClock
from trimtab.errors import ApiError
from trimtab.runtime.cache import Cache
from trimtab.simulate.fleet import FleetPlan, MemberPlan, flows_fleet
from trimtab.simulate.kubelets.kubelets import Kubelets, KubeletSettings
from trimtab.simulate.kubelets.node_status import NODES

T = TypeVar("T")
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
ENTRY = "from trimtab.cli.main import main; main()"
READY = "controllers are ready"
HEARTBEAT_SECONDS = 10.0
"""The controller manager of a real cluster marks a node NotReady after 50 seconds without a heartbeat."""
POLL_SECONDS = 0.5
TIMEOUT_SECONDS = 600.0
"""The longest wait for anything: far more than necessary, because test machines are busy."""


class LoopThread:
    """An event loop in its own thread, so that background tasks continue between the steps of a test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class CachedClient:
    """A client that lists from a watch cache, so that frequent comparisons do not load the server."""

    def __init__(self, client: KubeClient, cache: Cache | None = None) -> None:
        self._client = client
        self.cache = cache or Cache(client)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._client, verb)

    async def list(self, resource: Resource, namespace: str = "") -> Listing:
        table = self.cache.table(resource)
        await table.synced.wait()
        return Listing([entry.raw for name, entry in table.entries.items() if namespace in ("", name[0])], "")


class RealMember:
    """A real cluster with nodes and pods run by simulated kubelets over HTTP."""

    def __init__(self, plan: MemberPlan, fleet: FleetPlan, directory: Path, *, pods: bool) -> None:
        self.plan = plan
        self.name = plan.name
        self._fleet = fleet
        self.plane = RealControlPlane(plan.name, directory, controllers=pods, scheduler=pods)
        self._direct_client: KubeClient | None = None

    async def start(self) -> None:
        await asyncio.to_thread(self.plane.start)
        self.client = KubeClient(load(self.plane.kubeconfig))
        self.cached_client = CachedClient(self.client)
        await self._start_kubelets(self.plan, self._fleet)

    async def _start_kubelets(self, plan: MemberPlan, fleet: FleetPlan) -> None:
        shape = KubeletSettings(self.name, fleet.pace_of(plan), HEARTBEAT_SECONDS)
        rng = random.Random(self.name)
        self.kubelets = Kubelets(self.cached_client.cache, plan.node_plans(), shape, clock=WallClock(), rng=rng)
        await self.kubelets.start()

    async def reconfigure(self, plan: MemberPlan, fleet: FleetPlan) -> None:
        """Replace the nodes; the cluster stays."""
        await self.kubelets.stop()
        for node in list(self.kubelets.machines):
            await self.client.delete(NODES, "", node)
        await self._start_kubelets(plan, fleet)

    async def stop(self) -> None:
        await self.kubelets.stop()
        await self.cached_client.cache.close()
        await self.client.close()
        if self._direct_client is not None:
            await self._direct_client.close()
        await asyncio.to_thread(self.plane.stop)

    @property
    def direct_client(self) -> Client:
        """A client that works even while the API server is stopped."""
        return cast("Client", self._direct_client or self.cached_client)

    async def stop_api(self) -> None:
        await asyncio.to_thread(self.plane.stop_apiserver)
        self._direct_client = KubeClient(load(await asyncio.to_thread(self.plane.start_second_api)))

    async def start_api(self) -> None:
        await asyncio.to_thread(self.plane.start_apiserver)
        if self._direct_client is not None:
            await self._direct_client.close()
            self._direct_client = None
        await asyncio.to_thread(self.plane.stop_second_api)


class ControllersProcess:
    """`trimtab controllers` in its own process."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str) -> None:
        self.log = log
        self._command = [sys.executable, "-c", ENTRY, "controllers", "--kubeconfig", str(kubeconfig)]
        self._command += flags
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, process_group=0)

    def log_after_exit(self) -> str:
        """The log of a process that exited; empty while it runs."""
        if self.process is None or self.process.poll() is None:
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:]) or "not a word"

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(TIMEOUT_SECONDS)
            self.process = None

    def __enter__(self) -> Self:
        before = self.log.stat().st_size if self.log.exists() else 0
        self.start()
        while READY not in self.log.read_text()[before:]:
            assert not self.log_after_exit(), self.log_after_exit()
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def cpu_seconds(self) -> float:
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class RealFleet:
    """A host without workload controllers and three members of the recorded sizes."""

    def __init__(self, directory: Path, *, pods: bool = True, host_flags: tuple[str, ...] = ()) -> None:
        """Without pods the members run no workload controllers: propagated objects stay unchanged."""
        self.directory = directory
        self.host = RealControlPlane("host", directory, apiserver_flags=host_flags)
        self._plan = flows_fleet()
        self.real_members = {
            plan.name: RealMember(plan, self._plan, directory, pods=pods) for plan in self._plan.members
        }
        self.loop = LoopThread()
        self.client: KubeClient
        self.cached_client: CachedClient

    def __enter__(self) -> Self:
        try:
            self.loop.run(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.run(self._stop())
        self.loop.close()

    async def _start(self) -> None:
        await asyncio.gather(
            asyncio.to_thread(self.host.start), *(member.start() for member in self.real_members.values())
        )
        self.client = KubeClient(load(self.host.kubeconfig))
        self.cached_client = CachedClient(self.client)
        await install_crds(self.client)
        for member in self.real_members.values():
            await asyncio.to_thread(self._join, member)

    def _join(self, member: RealMember) -> None:
        """Join the member as a user does: `trimtab join`."""
        arguments = [
            member.name,
            "--kubeconfig",
            str(member.plane.kubeconfig),
            "--host-kubeconfig",
            str(self.host.kubeconfig),
        ]
        arguments += [f"--provider={member.plan.provider}", f"--region={member.plan.region}"]
        arguments += [f"--zone={zone}" for zone in member.plan.zones]
        arguments += [f"--label={key}={value}" for key, value in member.plan.labels.items()]
        CliRunner().invoke(join, arguments, catch_exceptions=False)

    async def reconfigure(self, plan: FleetPlan) -> None:
        """Give the members other nodes, zones and labels, before anything runs there."""
        if plan == self._plan:
            return
        for wanted in plan.members:
            await self.real_members[wanted.name].reconfigure(wanted, plan)
            spec = {"provider": wanted.provider, "region": wanted.region, "zones": list(wanted.zones)}
            forgotten = dict.fromkeys(self._labels_of(wanted.name))
            body = {"metadata": {"labels": forgotten | wanted.labels}, "spec": spec}
            await self.client.patch(CLUSTERS, "", wanted.name, body, manager="owner")
        self._plan = plan

    def _labels_of(self, member: str) -> Mapping[str, str]:
        return next(wanted.labels for wanted in self._plan.members if wanted.name == member)

    async def _stop(self) -> None:
        for member in self.real_members.values():
            with contextlib.suppress(AttributeError):  # a member that failed to start has less to stop
                await member.stop()
            member.plane.stop()
        if hasattr(self, "client"):
            await self.cached_client.cache.close()
            await self.client.close()
        self.host.stop()

    def controllers(self, name: str, *flags: str) -> ControllersProcess:
        return ControllersProcess(self.host.kubeconfig, self.directory / f"{name}.log", *flags)

    @property
    def members(self) -> Mapping[str, Client]:
        return {name: member.client for name, member in self.real_members.items()}


async def all_ready(fleet: RealFleet) -> bool:
    """Every member is Ready with all its nodes: workloads may be placed anywhere."""
    clusters = (await fleet.client.list(CLUSTERS)).items
    return all(
        is_ready(cluster, len(fleet.real_members[cluster["metadata"]["name"]].kubelets.machines))
        for cluster in clusters
    )


def is_ready(cluster: dict[str, Any], nodes: int) -> bool:
    status = cluster.get("status") or {}
    is_cluster_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or [])
    return is_cluster_ready and (status.get("nodeSummary") or {}).get("readyNum") == nodes


async def install_crds(client: Client) -> None:
    """Install our CRDs and wait until they are served: an established CRD may not be served yet."""
    for definition in definitions():
        await client.patch(DEFINITIONS, "", definition["metadata"]["name"], definition, type="apply", force=True)
    await wait_until_served(client)


async def wait_until_served(client: Client) -> None:
    await wait_until(lambda: _all_established(client))
    for definition in definitions():
        await wait_until(partial(_is_served, client, definition), pause=0.1)


async def _is_served(client: Client, definition: dict[str, Any]) -> bool:
    spec = definition["spec"]
    version = next(v["name"] for v in spec["versions"] if v["storage"])
    try:
        await client.list(Resource(spec["group"], version, spec["names"]["plural"], spec["names"]["kind"]))
    except ApiError:
        return False
    return True


def definitions() -> Iterator[dict[str, Any]]:
    yield from yaml.load_all(CliRunner().invoke(crds).output, Loader=yaml.CSafeLoader)


async def _all_established(client: Client) -> bool:
    listed = (await client.list(DEFINITIONS)).items
    return all(
        any(
            c["type"] == "Established" and c["status"] == "True"
            for c in (item.get("status") or {}).get("conditions") or []
        )
        for item in listed
    )


async def wait_until(is_met: Callable[[], Awaitable[bool]], pause: float = POLL_SECONDS) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not await is_met():
        assert time.monotonic() < deadline, "the condition was not met in time"
        await asyncio.sleep(pause)
