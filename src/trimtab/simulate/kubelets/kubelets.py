"""Simulated kubelets: clients of any API server that register nodes, renew their leases and run pods."""

import asyncio
import contextlib
import random
from collections.abc import Iterable
from typing import NamedTuple

from trimtab.client.client import Client
from trimtab.clock import Clock
from trimtab.errors import ApiError, StorageFailed
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.effects.event_recorder import EventRecorder
from trimtab.simulate.fleet import NodePlan, Pace
from trimtab.simulate.kubelets.behaviour import BehaviourOverride, PodBehaviours
from trimtab.simulate.kubelets.container_access import ContainerAccess
from trimtab.simulate.kubelets.heartbeats import Heartbeats, NodeLeases
from trimtab.simulate.kubelets.loop_times import LoopTimes
from trimtab.simulate.kubelets.machine import SimulatedMachine
from trimtab.simulate.kubelets.node_status import NODES, NodeStatusWriter, extended_resource_changes
from trimtab.simulate.kubelets.pod_events import PodEvents
from trimtab.simulate.kubelets.pod_reports import PODS, PodReports
from trimtab.simulate.kubelets.pod_workers import PodWorkers

REGISTER_RETRY_SECONDS = 10.0


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
        containers: ContainerAccess | None = None,
        recorder: EventRecorder | None = None,
    ) -> None:
        """`containers` gives clients of the API access to what runs here; `recorder` writes events about pods."""
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
            PodEvents(recorder, clock),
            self._times,
            cluster=settings.cluster,
            behaviour_of=self.behaviours.of,
            rng=rng,
        )
        self.containers = containers or ContainerAccess()
        self.containers.attach(self._pods, self._times)
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

    # container behaviour

    def override_behaviour(self, override: BehaviourOverride) -> int:
        """Change the behaviour of some pods, including those already running; returns the number of the latter."""
        self.behaviours.add_override(override)
        return self._pods.apply_override_change(override)

    def remove_override(self, name: str) -> None:
        if override := self.behaviours.remove_override(name):
            self._pods.apply_override_change(override)
