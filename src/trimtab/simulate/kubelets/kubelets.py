"""Simulated kubelets: clients of any API server that register nodes, renew their leases and run pods."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.clock import Clock
from trimtab.errors import ApiError, BadRequest, StorageFailed
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.server.admission.service_calls import ServerAnswer
from trimtab.server.subresources.pod_runtime import LogLine
from trimtab.simulate.containers.commands import run_command
from trimtab.simulate.containers.connections import Connection, Listener, Receive, Send, serve_http
from trimtab.simulate.containers.container_lifecycle import ContainerLifecycle
from trimtab.simulate.containers.environment import MissingConfig
from trimtab.simulate.fleet import NodePlan, Pace
from trimtab.simulate.kubelets.behaviour import BehaviourOverride, PodBehaviours
from trimtab.simulate.kubelets.container_logs import format_container_log
from trimtab.simulate.kubelets.heartbeats import Heartbeats, NodeLeases
from trimtab.simulate.kubelets.loop_times import LoopTimes
from trimtab.simulate.kubelets.machine import SimulatedMachine
from trimtab.simulate.kubelets.node_status import NODES, NodeStatusWriter, extended_resource_changes
from trimtab.simulate.kubelets.pod_reports import PODS, PodReports
from trimtab.simulate.kubelets.pod_workers import PodWorkers

REGISTER_RETRY_SECONDS = 10.0
FOLLOW_SECONDS = 0.5
"""How often the log of a container is read for a client that follows it."""


class KubeletSettings(NamedTuple):
    """Settings of all kubelets of a cluster."""

    cluster: str
    pace: Pace
    heartbeat: float = 10.0
    """Seconds between the heartbeats of each node; 0 disables heartbeats."""


class Kubelets:
    """All kubelets of one cluster, and what may happen to their machines."""

    def __init__(
        self,
        cache: Cache,
        plans: Iterable[NodePlan],
        settings: KubeletSettings,
        *,
        clock: Clock,
        rng: random.Random,
        client: Client | None = None,
    ) -> None:
        client = client or cache.client
        self._cache = cache
        self._settings = settings
        self._rng = rng
        self.machines = {plan.name: SimulatedMachine(plan, number) for number, plan in enumerate(plans, 1)}
        self.behaviours = PodBehaviours(settings.pace, rng)
        self._times = LoopTimes(clock)
        self._nodes = NodeStatusWriter(cache, client, clock)
        self._leases = NodeLeases(cache, client, clock, settings.heartbeat)
        self._pods = PodWorkers(
            cache,
            self.machines,
            PodReports(cache, client),
            self._times,
            cluster=settings.cluster,
            behaviour_of=self.behaviours.of,
            rng=rng,
        )
        self._heartbeats = Heartbeats(
            self.machines,
            self._leases,
            is_reported_ready=self._nodes.is_reported_ready,
            report=self._report_node_and_pods,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._reports: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Register every node, then run the pods bound to them."""
        loop = asyncio.get_running_loop()
        self._times.synchronize()
        for machine in self.machines.values():
            try:
                await self._register(machine)
            except StorageFailed:  # the disk is full; the node as stored is served meanwhile
                self._tasks.append(loop.create_task(self._register_later(machine)))
        pods, nodes = self._cache.table(PODS), self._cache.table(NODES)
        await pods.synced.wait()
        await nodes.synced.wait()
        nodes.add_listener(self._on_node_change)
        pods.add_listener(self._pods.on_pod_change)
        self._tasks.append(loop.create_task(self._pods.run()))
        if self._settings.heartbeat:
            self._tasks.append(loop.create_task(self._heartbeats.run(self._settings.heartbeat, self._rng)))

    async def stop(self) -> None:
        for task in (*self._tasks, *self._reports):
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        self._pods.close()

    @property
    def is_idle(self) -> bool:
        """Whether no pod is queued; timers may be pending."""
        return self._pods.is_idle

    async def _register(self, machine: SimulatedMachine) -> None:
        await self._nodes.register(machine)
        await self._leases.create(machine.plan.name, machine.uid)

    async def _register_later(self, machine: SimulatedMachine) -> None:
        while True:
            await asyncio.sleep(REGISTER_RETRY_SECONDS)
            with contextlib.suppress(ApiError, OSError, TimeoutError):
                await self._register(machine)
                return

    async def _report_node_and_pods(self, machine: SimulatedMachine) -> None:
        """Report the node ready and the status of its pods, after missed heartbeats."""
        await self._nodes.report(machine)
        self._pods.sync_all(machine.plan.name)

    # machines

    def fail(self, node: str) -> None:
        """Power the machine off; the API server is not notified."""
        self.machines[node].up = False

    async def recover(self, node: str) -> None:
        """Power the machine on: its pods restart, unless they were evicted meanwhile."""
        machine = self.machines[node]
        if machine.up:
            return
        machine.up = True
        self._pods.restart_containers(node)
        await self._leases.renew(node)
        await self._report_node_and_pods(machine)

    async def set_pressure(self, node: str, resource: str, *, on: bool = True) -> None:
        """Set or clear pressure on memory, disk, pid or cpu."""
        machine = self.machines[node]
        machine.pressures = machine.pressures | {resource} if on else machine.pressures - {resource}
        await self._nodes.report(machine)

    async def add(self, plan: NodePlan) -> None:
        """Add a machine to the cluster."""
        machine = self.machines[plan.name] = SimulatedMachine(plan, len(self.machines) + 1)
        await self._register(machine)
        self._pods.adopt_all(plan.name)

    async def remove(self, node: str) -> None:
        """Remove the machine from the cluster, with its pods."""
        await self._nodes.delete(node)

    def _on_node_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is not None:
            self._sync_extended_resources(new)
        if new is not None or old is None or old.name[1] not in self.machines:
            return
        if self.machines[old.name[1]].uid != old.raw["metadata"]["uid"]:
            return  # a late event of an earlier node with this name
        del self.machines[old.name[1]]
        self._pods.end_all(old.name[1])

    def _sync_extended_resources(self, entry: CacheEntry) -> None:
        machine = self.machines.get(entry.name[1])
        if machine is None:
            return
        if changes := extended_resource_changes(entry.raw, machine.plan.pool.resources):
            task = asyncio.get_running_loop().create_task(self._nodes.make_allocatable(entry.name[1], changes))
            self._reports.add(task)
            task.add_done_callback(self._reports.discard)

    async def scale_reported_capacity(self, factor: float) -> None:
        """Let every node report its capacity multiplied by this factor; 1 is the actual capacity."""
        for machine in self.machines.values():
            await self._nodes.report_capacity(machine, factor)

    # what clients of the API read from containers

    def read_log(self, pod: Raw, container: str, *, previous: bool) -> list[LogLine]:
        """The log of a container: what its program wrote, or, if that is not known, its starts and ends."""
        lifecycle = self._pods.find_lifecycle(pod)
        found = lifecycle.container(container) if lifecycle is not None else None
        if found is not None and found.process is not None:
            if found.running_since is not None:
                found.process.advance(self._times.now())
            log = found.previous_log if previous else found.process.log
            return [LogLine(self._times.to_wall_time(one.at), one.text) for one in (log.lines if log else ())]
        return [LogLine(None, one) for one in format_container_log(pod, container, previous=previous).splitlines()]

    def follow_log(self, pod: Raw, container: str) -> AsyncIterator[Sequence[LogLine]]:
        """What a running container writes after this call, until this run of it ends."""
        lifecycle = self._pods.find_lifecycle(pod)
        found = lifecycle.container(container) if lifecycle is not None else None
        written = found.process.log.written if found is not None and found.process is not None else 0
        return self._later_lines(pod, found, written)

    async def _later_lines(
        self, pod: Raw, found: ContainerLifecycle | None, written: int
    ) -> AsyncIterator[Sequence[LogLine]]:
        if found is None or found.running_since is None:
            return
        began, process, is_running = found.running_since, found.process, True
        while is_running:
            await asyncio.sleep(FOLLOW_SECONDS)
            is_running = found.running_since == began and self._pods.find_lifecycle(pod) is not None
            if process is None:
                continue
            if is_running:
                process.advance(self._times.now())
                is_running = process.exit_code is None
            if new := process.log.after(written):
                written = process.log.written
                yield [LogLine(self._times.to_wall_time(one.at), one.text) for one in new]

    async def run_command(
        self, pod: Raw, container: str, command: Sequence[str], text: str, write: Callable[[str], None]
    ) -> int:
        """Run a command in a container; one that is not simulated ends as if it did not exist."""
        try:
            context = await self._pods.command_context(pod, container)
        except MissingConfig as fault:
            raise BadRequest(str(fault)) from None
        if context is None:
            raise BadRequest(f'container "{container}" is not running')
        return await run_command(command, text, context, write)

    def respond(self, pod: Raw, port: str, path: str, body: bytes = b"") -> ServerAnswer | None:
        """The answer of a container to an HTTP request; None when nothing listens there."""
        lifecycle = self._pods.find_lifecycle(pod)
        for container in lifecycle.containers if lifecycle is not None else ():
            server = container.launch.server if container.launch is not None else None
            if container.running_since is not None and server is not None:
                return server.respond(path, body)
        return None

    def send_input(self, pod: Raw, container: str, data: bytes | None) -> None:
        """Pass bytes to the standard input of a container that has one; None closes it."""
        lifecycle = self._pods.find_lifecycle(pod)
        found = lifecycle.container(container) if lifecycle is not None else None
        if found is None or found.context is None:
            return
        if data is None:
            found.context.stdin.close()
        else:
            found.context.stdin.feed(data)
        self._pods.wake(pod, found)

    async def connect(self, pod: Raw, port: int, receive: Receive, send: Send) -> None:
        """Carry a connection to a port of the pod until one side ends it; ConnectionError when nothing listens there."""
        lifecycle = self._pods.find_lifecycle(pod)
        for container in lifecycle.containers if lifecycle is not None else ():
            launch = container.launch
            if container.running_since is None or launch is None:
                continue
            if launch.server is not None and launch.server.port in (0, port):
                return await serve_http(launch.server.respond, receive, send)
            if launch.listener is not None and launch.listening_port == port:
                return await self._carry(pod, container, launch.listener, receive, send)
        raise ConnectionError(f"dial tcp4 127.0.0.1:{port}: connect: connection refused")

    async def _carry(
        self, pod: Raw, container: ContainerLifecycle, listener: Listener, receive: Receive, send: Send
    ) -> None:
        connection = Connection(send)
        listener.waiting.append(connection)
        self._pods.wake(pod, container)

        async def pass_on() -> None:
            while (data := await receive()) is not None:
                connection.received.feed(data)
                self._pods.wake(pod, container)
            connection.received.close()
            self._pods.wake(pod, container)

        passing = asyncio.ensure_future(pass_on())
        try:
            await connection.ended.wait()
        finally:
            passing.cancel()

    # container behaviour

    def override_behaviour(self, override: BehaviourOverride) -> None:
        """Change the behaviour of some pods, including those already running."""
        self.behaviours.add_override(override)
        self._pods.apply_override_change(override)

    def remove_override(self, name: str) -> None:
        if override := self.behaviours.remove_override(name):
            self._pods.apply_override_change(override)
