"""Simulated kubelets: clients of any API server that register nodes, renew their leases and run pods."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, cast

from trimtab.api.kinds.native.node import Node, NodeCondition
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import Clock, timestamp
from trimtab.decide.pods.fit.requests import Amounts, parse_amounts, pod_resources_of
from trimtab.errors import AlreadyExists, ApiError, Conflict, NotFound, StorageFailed
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.runtime.queue import WorkQueue
from trimtab.simulate.behaviour import Behaviour, BehaviourOverride, default_behaviour
from trimtab.simulate.fleet import NodePlan, Pace
from trimtab.simulate.pod_lifecycle import PodLifecycle

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
LEASE_NAMESPACE = "kube-node-lease"
HEARTBEATS_PER_LEASE = 4
"""Lease duration in heartbeats, as with stock kubelets."""
REJECTION_SECONDS = 5.0
"""A rejected pod is replaced, and the replacement rejected again: the pause limits the rate."""
MIN_REPORTED_SECONDS = 0.5
"""States that last shorter are not reported."""
CLOCK_SET_SECONDS = 1.0
"""A difference of the clocks by more means that one of them was set."""
MAX_PARALLEL = 16
REGISTER_RETRY_SECONDS = 10.0
KUBELET_VERSION = "v1.32.0"
log = logging.getLogger("trimtab.kubelet")


class KubeletSettings(NamedTuple):
    """Settings of all kubelets of a cluster."""

    cluster: str
    pace: Pace
    heartbeat: float = 10.0
    """Seconds between the heartbeats of each node; 0 disables heartbeats."""


class SimulatedMachine:
    """The actual state of one node, which may differ from its reported status."""

    def __init__(self, plan: NodePlan, number: int) -> None:
        self.plan = plan
        self.address = f"172.{16 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        self.capacity: Amounts = parse_amounts(plan.pool.capacity)
        self.uid = ""
        """Uid of its Node object."""
        self.up = True
        self.pressures: set[str] = set()
        """Resources under pressure: `memory`, `disk`, `pid`, `cpu`."""


class Kubelets:
    """All kubelets of one cluster: one client, one work queue of pods."""

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
        self._cache = cache
        self._client = client or cache.client
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self.machines = {plan.name: SimulatedMachine(plan, number) for number, plan in enumerate(plans, 1)}
        self.overrides: dict[str, BehaviourOverride] = {}
        self._lifecycles: dict[Key, PodLifecycle] = {}
        self._admitted: dict[str, dict[Key, Amounts]] = {}
        self._queue: WorkQueue[Key] = WorkQueue()
        self._tasks: list[asyncio.Task[None]] = []
        self._epoch = 0.0

    # start and stop

    async def start(self) -> None:
        """Register every node, then run the pods bound to them."""
        loop = asyncio.get_running_loop()
        self._epoch = self._clock.now().timestamp() - loop.time()
        for machine in self.machines.values():
            try:
                await self._register(machine)
            except StorageFailed:  # the disk is full; the node as stored is served meanwhile
                self._tasks.append(loop.create_task(self._register_later(machine)))
        table = self._cache.table(PODS)
        await table.synced.wait()
        nodes = self._cache.table(NODES)
        await nodes.synced.wait()
        nodes.add_listener(self._on_node_change)
        table.add_listener(self._on_pod_change)
        self._tasks.append(loop.create_task(self._run()))
        if self._settings.heartbeat:
            self._tasks.append(loop.create_task(self._heartbeat_loop()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        self._queue.close()

    @property
    def is_idle(self) -> bool:
        """Whether no pod is queued; timers may be pending."""
        return self._queue.is_idle

    async def _register(self, machine: SimulatedMachine) -> None:
        try:
            created = await self._client.create(NODES, node_object(machine, self._clock.now()), manager="kubelet")
            machine.uid = created["metadata"]["uid"]
        except AlreadyExists:
            await self._report_node_status(machine)
        if self._settings.heartbeat:
            await self._create_lease(machine.plan.name)

    async def _register_later(self, machine: SimulatedMachine) -> None:
        while True:
            await asyncio.sleep(REGISTER_RETRY_SECONDS)
            with contextlib.suppress(ApiError, OSError, TimeoutError):
                await self._register(machine)
                return

    async def _create_lease(self, node: str) -> None:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": node, "namespace": LEASE_NAMESPACE},
            "spec": {
                "holderIdentity": node,
                "leaseDurationSeconds": int(self._settings.heartbeat * HEARTBEATS_PER_LEASE),
                "renewTime": micro_time(self._clock.now()),
            },
        }
        try:
            await self._client.create(LEASES, lease, manager="kubelet")
        except AlreadyExists:
            await self._renew_lease(node)

    async def _report_node_status(self, machine: SimulatedMachine) -> None:
        known = self._cache.table(NODES).entries.get(("", machine.plan.name))
        before = cast("Node", known.typed).status.conditions if known is not None else ()
        body = {"status": {"conditions": node_conditions(self._clock.now(), machine.pressures, before)}}
        with contextlib.suppress(NotFound):
            node = await self._client.patch(NODES, "", machine.plan.name, body, subresource="status", manager="kubelet")
            machine.uid = node["metadata"]["uid"]

    # heartbeats

    async def _heartbeat_loop(self) -> None:
        """Renew the leases of all nodes together, after a random initial delay per cluster."""
        await asyncio.sleep(self._settings.heartbeat * self._rng.random())
        while True:
            began = self._now()
            await self._renew_all_leases()
            if self._now() - began > self._settings.heartbeat:
                await self._renew_all_leases(report_status=True)
            await asyncio.sleep(self._settings.heartbeat)

    async def _renew_all_leases(self, *, report_status: bool = False) -> None:
        """Renew all leases; after missed heartbeats, or when a node is not reported ready, report its status too."""
        for name, machine in list(self.machines.items()):
            if machine.up:
                with contextlib.suppress(ApiError, OSError, TimeoutError):
                    await self._renew_lease(name)
                    if report_status or not self._is_reported_ready(name):
                        await self._report_node_and_pods(machine)

    def _is_reported_ready(self, node: str) -> bool:
        entry = self._cache.table(NODES).entries.get(("", node))
        return entry is None or cast("Node", entry.typed).is_ready

    async def _renew_lease(self, node: str) -> None:
        spec = {"renewTime": micro_time(self._clock.now())}
        try:
            lease = await self._client.patch(LEASES, LEASE_NAMESPACE, node, {"spec": spec}, manager="kubelet")
        except NotFound:
            await self._create_lease(node)
        else:
            if table := self._cache.find_table(
                LEASES.id
            ):  # after a stall no controller must act on an expired lease that has been renewed
                table.put(lease)

    # node faults

    def fail(self, node: str) -> None:
        """Power the machine off; the API server is not notified."""
        self.machines[node].up = False

    async def recover(self, node: str) -> None:
        """Power the machine on: its pods restart, unless they were evicted meanwhile."""
        machine = self.machines[node]
        if machine.up:
            return
        machine.up = True
        for lifecycle in self._lifecycles.values():
            if lifecycle.node == node:
                lifecycle.interrupt(self._now())
        if self._settings.heartbeat:
            await self._renew_lease(node)
        await self._report_node_and_pods(machine)

    async def _report_node_and_pods(self, machine: SimulatedMachine) -> None:
        """Report the node ready and the status of its pods, after missed heartbeats."""
        await self._report_node_status(machine)
        for key, lifecycle in self._lifecycles.items():
            if lifecycle.node == machine.plan.name:
                self._queue.add(key)

    async def set_pressure(self, node: str, resource: str, *, on: bool = True) -> None:
        """Set or clear pressure on memory, disk, pid or cpu."""
        machine = self.machines[node]
        machine.pressures = machine.pressures | {resource} if on else machine.pressures - {resource}
        await self._report_node_status(machine)

    async def add(self, plan: NodePlan) -> None:
        """Add a machine to the cluster."""
        machine = self.machines[plan.name] = SimulatedMachine(plan, len(self.machines) + 1)
        await self._register(machine)
        for entry in list(self._cache.table(PODS).entries.values()):
            if entry.raw["spec"].get("nodeName") == plan.name:
                self._on_pod_change(None, entry)

    async def remove(self, node: str) -> None:
        """Remove the machine from the cluster, with its pods."""
        await self._client.delete(NODES, "", node)

    def _on_node_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        """Delete the pods of a deleted node: no kubelet reports on them any more."""
        if new is not None or old is None or old.name[1] not in self.machines:
            return
        if self.machines[old.name[1]].uid != old.raw["metadata"]["uid"]:
            return  # a late event of an earlier node with this name
        del self.machines[old.name[1]]
        for key, lifecycle in self._lifecycles.items():
            if lifecycle.node == old.name[1]:
                lifecycle.stop_at = self._now()
                self._queue.add(key)

    async def scale_reported_capacity(self, factor: float) -> None:
        """Let every node report its capacity multiplied by this factor; 1 is the actual capacity."""
        for name, machine in self.machines.items():
            reported = {
                resource: str(int(amount * factor)) + ("m" if resource == "cpu" else "")
                for resource, amount in machine.capacity.items()
            }
            reported = machine.plan.pool.capacity if factor == 1 else reported
            body = {"status": {"allocatable": reported, "capacity": reported}}
            await self._client.patch(NODES, "", name, body, subresource="status", manager="kubelet")

    # pod faults

    def override_behaviour(self, override: BehaviourOverride) -> None:
        """Change the behaviour of some pods, including those already running."""
        self.overrides[override.name] = override
        self._apply_override_change(override)

    def remove_override(self, name: str) -> None:
        if spell := self.overrides.pop(name, None):
            self._apply_override_change(spell)

    def _apply_override_change(self, override: BehaviourOverride) -> None:
        now = self._now()
        for key, lifecycle in self._lifecycles.items():
            entry = self._pod_entry(key)
            if entry is not None and override.applies_to(pod := cast("Pod", entry.typed)):
                before, lifecycle.behaviour = lifecycle.behaviour, self._behaviour(pod)
                if lifecycle.running_since is not None and before.crash != lifecycle.behaviour.crash:
                    lifecycle.running_since = now - lifecycle.behaviour.ready  # the time until the crash starts now
                self._queue.add(key)

    def _behaviour(self, pod: Pod) -> Behaviour:
        behaviour = default_behaviour(pod, self._settings.pace, self._rng)
        for name in sorted(self.overrides):
            if self.overrides[name].applies_to(pod):
                behaviour = behaviour._replace(**self.overrides[name].changes)
        return behaviour

    # pod sync

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _wall_time(self, moment: float) -> datetime:
        """The wall-clock time of a loop time. The difference of both clocks is kept until somebody sets one of them:
        computed anew each time, rounding would change reported times."""
        now = self._clock.now()
        epoch = now.timestamp() - self._now()
        if abs(epoch - self._epoch) > CLOCK_SET_SECONDS:
            self._epoch = epoch
        return datetime.fromtimestamp(self._epoch + moment, tz=now.tzinfo)

    def _pod_entry(self, key: Key) -> CacheEntry | None:
        return self._cache.table(PODS).entries.get((key.namespace, key.name))

    def _on_pod_change(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        entry = new or cast("CacheEntry", old)
        key = Key("pods", *entry.name)
        if new is None:
            self._forget_pod(key)
            return
        node = new.raw["spec"].get("nodeName")
        if node not in self.machines:
            return
        metadata = new.raw["metadata"]
        lifecycle = self._lifecycles.get(key)
        if lifecycle is None or lifecycle.uid != metadata["uid"]:
            self._forget_pod(key)
            self._start_pod(key, cast("Pod", new.typed))
        elif metadata.get("deletionTimestamp") and lifecycle.stop_at is None:
            lifecycle.stop_at = self._stop_time(lifecycle, metadata)
            self._queue.add(key)
        elif new.raw["spec"].get("readinessGates") or lifecycle.is_changed_by_others(new.raw):
            self._queue.add(key)

    def _stop_time(self, lifecycle: PodLifecycle, metadata: Raw) -> float:
        grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
        return self._now() + min(grace, lifecycle.behaviour.stop)

    def _start_pod(self, key: Key, pod: Pod) -> None:
        if pod.is_terminal and pod.metadata.deletion_timestamp is None:
            return
        lifecycle = PodLifecycle(pod, self._behaviour(pod), self._now(), self._wall_time)
        if pod.metadata.deletion_timestamp is not None:
            lifecycle.stop_at = self._now() + lifecycle.behaviour.stop
        self._lifecycles[key] = lifecycle
        requests = pod_resources_of(pod).requests
        machine = self.machines[lifecycle.node]
        here = self._admitted.setdefault(lifecycle.node, {})
        if pod.status.phase == "Running" or insufficient_resource(machine.capacity, here.values(), requests) is None:
            here[key] = requests
        else:
            lifecycle.is_admitted = False
        self._queue.add_after(key, 0.0 if lifecycle.is_admitted else REJECTION_SECONDS)

    def _forget_pod(self, key: Key) -> None:
        self._queue.cancel_timer(key)
        if lifecycle := self._lifecycles.pop(key, None):
            self._admitted.get(lifecycle.node, {}).pop(key, None)

    async def _run(self) -> None:
        limit = asyncio.Semaphore(MAX_PARALLEL)
        running: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        try:
            while True:
                await limit.acquire()
                (key,) = await self._queue.take()
                task = loop.create_task(self._process(key))
                running.add(task)
                task.add_done_callback(running.discard)
                task.add_done_callback(lambda _: limit.release())
        finally:
            for task in running:
                task.cancel()

    async def _process(self, key: Key) -> None:
        try:
            await self._sync_pod(key)
            self._queue.reset_backoff(key)
        except (NotFound, Conflict):
            self._queue.retry(key)  # the watch event about the change is still to come
        except StorageFailed as fault:  # the store logs it, once for all pods
            self._queue.add_after(key, fault.retry_after or REGISTER_RETRY_SECONDS)
        except (ApiError, OSError, TimeoutError) as fault:
            log.warning("%s: cannot report %s: %s", self._settings.cluster, key, fault)
            self._queue.retry(key)
        finally:
            self._queue.done(key)

    async def _sync_pod(self, key: Key) -> None:
        lifecycle, entry = self._lifecycles.get(key), self._pod_entry(key)
        if lifecycle is None or entry is None:
            return
        machine = self.machines.get(lifecycle.node)
        if machine is None:
            await self._delete_pod(lifecycle, entry)
            return
        if not machine.up:
            return
        if not lifecycle.is_admitted:
            await self._admit_or_reject(key, lifecycle, entry)
            return
        now = self._now()
        if lifecycle.stop_at is not None and now + 1e-3 >= lifecycle.stop_at:
            await self._finish_termination(key, lifecycle, entry)
            return
        due = lifecycle.advance(now)
        if due is None or due - now >= MIN_REPORTED_SECONDS:
            await self._report_pod_status(lifecycle, entry, now)
        if lifecycle.termination is not None:
            self._admitted.get(lifecycle.node, {}).pop(key, None)
        waits = [moment for moment in (due, lifecycle.stop_at) if moment is not None]
        if waits:
            self._queue.add_after(key, min(waits) - now)

    async def _report_pod_status(self, lifecycle: PodLifecycle, entry: CacheEntry, now: float) -> None:
        """Write the status, unless the API server has it already."""
        status = lifecycle.status(entry.raw, now, self.machines[lifecycle.node].address)
        lifecycle.note_report(status)
        present = entry.raw.get("status") or {}
        if all(_equals_ignoring_empty(present.get(field), value) for field, value in status.items()):
            return
        await self._write_pod_status(entry, status)

    async def _write_pod_status(self, entry: CacheEntry, status: Raw) -> None:
        metadata = {"uid": entry.raw["metadata"]["uid"], "resourceVersion": entry.revision}
        written = await self._client.patch(
            PODS, *entry.name, {"metadata": metadata, "status": status}, subresource="status", manager="kubelet"
        )
        self._cache.table(PODS).put(written)

    async def _admit_or_reject(self, key: Key, lifecycle: PodLifecycle, entry: CacheEntry) -> None:
        """Reject a pod that exceeds the actual capacity, which may be less than the scheduler sees."""
        pod = cast("Pod", entry.typed)
        requests, machine = pod_resources_of(pod).requests, self.machines[lifecycle.node]
        here = self._admitted.setdefault(lifecycle.node, {})
        insufficient = insufficient_resource(machine.capacity, here.values(), requests)
        if insufficient is None:
            lifecycle.is_admitted = True
            here[key] = requests
            self._queue.add(key)
            return
        used = len(here) if insufficient == "pods" else sum(other.get(insufficient, 0) for other in here.values())
        message = (
            f"Pod was rejected: Node didn't have enough resource: {insufficient}, "
            f"requested: {requests.get(insufficient, 1)}, used: {used}, capacity: {machine.capacity.get(insufficient, 0)}"
        )
        del self._lifecycles[key]
        await self._write_pod_status(entry, {"phase": "Failed", "reason": f"OutOf{insufficient}", "message": message})

    async def _finish_termination(self, key: Key, lifecycle: PodLifecycle, entry: CacheEntry) -> None:
        """Report the end to owners that wait for it through finalizers, then delete the pod."""
        if entry.raw["metadata"].get("finalizers") and lifecycle.termination is None:
            lifecycle.stop(self._now())
            await self._report_pod_status(lifecycle, entry, self._now())
        await self._delete_pod(lifecycle, entry)

    async def _delete_pod(self, lifecycle: PodLifecycle, entry: CacheEntry) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(PODS, *entry.name, uid=lifecycle.uid, grace_seconds=0)


def insufficient_resource(
    capacity: Mapping[str, int], others: Iterable[Mapping[str, int]], requests: Mapping[str, int]
) -> str | None:
    """The first resource of which the machine has too little for one more pod; None if the pod fits."""
    others = list(others)
    if len(others) + 1 > capacity.get("pods", 0):
        return "pods"
    for resource, amount in requests.items():
        if amount + sum(other.get(resource, 0) for other in others) > capacity.get(resource, 0):
            return resource
    return None


def _equals_ignoring_empty(present: object, wanted: object) -> bool:
    """Whether the values are equal; an API server omits null and empty values."""
    if isinstance(wanted, dict):
        fields = present if isinstance(present, dict) else {}
        return all(_equals_ignoring_empty(fields.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        items = present if isinstance(present, list) else []
        return len(items) == len(wanted) and all(map(_equals_ignoring_empty, items, wanted))
    return present == wanted or (not present and not wanted)


def micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


PRESSURES = {
    "memory": ("MemoryPressure", "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory", "memory"),
    "disk": ("DiskPressure", "KubeletHasDiskPressure", "KubeletHasNoDiskPressure", "disk space"),
    "pid": ("PIDPressure", "KubeletHasInsufficientPID", "KubeletHasSufficientPID", "PID"),
}
CPU_PRESSURE = ("CPUPressure", "ContainersWaitForCPU", "ContainersGetTheirCPU", "CPU")
"""A condition that no stock kubelet sets; in real clusters an agent derives it from pressure stall information."""


def node_conditions(
    now: datetime, pressures: Collection[str] = (), before: Collection[NodeCondition] = ()
) -> list[Raw]:
    since = {(one.type, one.status): one.last_transition_time for one in before}

    def condition(type_: str, status: str, reason: str, message: str) -> Raw:
        times = {
            "lastHeartbeatTime": timestamp(now),
            "lastTransitionTime": timestamp(since.get((type_, status)) or now),
        }
        return {"type": type_, "status": status, **times, "reason": reason, "message": message}

    conditions = []
    with_cpu = {"cpu": CPU_PRESSURE} if "cpu" in pressures or any(one.type == CPU_PRESSURE[0] for one in before) else {}
    for name, (type_, short, enough, what) in {**PRESSURES, **with_cpu}.items():
        if name in pressures:
            conditions.append(condition(type_, "True", short, f"kubelet has insufficient {what} available"))
        else:
            conditions.append(condition(type_, "False", enough, f"kubelet has sufficient {what} available"))
    return [*conditions, condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")]


def node_object(machine: SimulatedMachine, now: datetime) -> Raw:
    plan, pool = machine.plan, machine.plan.pool
    labels = {
        "kubernetes.io/hostname": plan.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": plan.region,
        "topology.kubernetes.io/zone": plan.zone,
        **pool.labels,
    }
    taints = [{"key": t.key, "effect": t.effect} | ({"value": t.value} if t.value else {}) for t in pool.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": plan.name, "labels": {key: value for key, value in labels.items() if value}},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "capacity": pool.capacity,
            "allocatable": pool.capacity,
            "conditions": node_conditions(now, machine.pressures),
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "Hostname", "address": plan.name},
            ],
            "nodeInfo": {
                "kubeletVersion": KUBELET_VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
                "osImage": "simulated",
                "kernelVersion": "",
                "containerRuntimeVersion": "simulated://1.0",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
        },
    }
