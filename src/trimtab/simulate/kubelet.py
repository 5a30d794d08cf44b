"""Kubelets that only pretend: a client of any API server that registers nodes, keeps them alive and runs their pods."""

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
from trimtab.decide.pods.fit.requests import Amounts, amounts, demand
from trimtab.errors import AlreadyExists, ApiFault, Conflict, NotFound
from trimtab.runtime.cache import Cache, Entry
from trimtab.runtime.queue import WorkQueue
from trimtab.simulate.behaviour import Behaviour, Spell, usual
from trimtab.simulate.fleet import NodePlan, Pace
from trimtab.simulate.pod_lifecycle import Life

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
LEASE_NAMESPACE = "kube-node-lease"
LEASE_PERIODS = 4
"""A lease lasts for so many heartbeats, as it does with stock kubelets."""
REJECTION_SECONDS = 5.0
"""A rejected pod is replaced and rejected again: the pause keeps that from becoming a storm."""
WORTH_TELLING_SECONDS = 0.5
"""A state that lasts shorter is not reported."""
PARALLEL = 16
VERSION = "v1.32.0"
log = logging.getLogger("trimtab.kubelet")


class Shape(NamedTuple):
    """How the kubelets of a cluster are set up."""

    cluster: str
    pace: Pace
    heartbeat: float = 10.0
    """Seconds between the heartbeats of each node; 0 is none at all."""


class Machine:
    """One node as it really is, whatever it reports."""

    def __init__(self, plan: NodePlan, number: int) -> None:
        self.plan = plan
        self.address = f"172.{16 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        self.room: Amounts = amounts(plan.pool.amounts)
        self.uid = ""
        """Of the node object that stands for it."""
        self.up = True
        self.pressures: set[str] = set()
        """`memory`, `disk`, `pid`, `cpu`: what the node is short of."""


class Kubelets:
    """All kubelets of one cluster: one client, one queue of pods whose life goes on."""

    def __init__(
        self,
        cache: Cache,
        plans: Iterable[NodePlan],
        shape: Shape,
        *,
        clock: Clock,
        dice: random.Random,
        client: Client | None = None,
    ) -> None:
        self._cache = cache
        self._client = client or cache.client
        self._shape = shape
        self._clock = clock
        self._dice = dice
        self.machines = {plan.name: Machine(plan, number) for number, plan in enumerate(plans, 1)}
        self.spells: dict[str, Spell] = {}
        self._lives: dict[Key, Life] = {}
        self._admitted: dict[str, dict[Key, Amounts]] = {}
        self._queue: WorkQueue[Key] = WorkQueue()
        self._tasks: list[asyncio.Task[None]] = []
        self._zero = 0.0

    # beginning and end

    async def start(self) -> None:
        """Register every node, then run what is bound to them."""
        loop = asyncio.get_running_loop()
        self._zero = self._clock.now().timestamp() - loop.time()
        for machine in self.machines.values():
            await self._register(machine)
        table = self._cache.table(PODS)
        await table.synced.wait()
        nodes = self._cache.table(NODES)
        await nodes.synced.wait()
        nodes.listen(self._node_heard)
        table.listen(self._heard)
        self._tasks.append(loop.create_task(self._run()))
        if self._shape.heartbeat:
            self._tasks.append(loop.create_task(self._beat()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        self._queue.close()

    @property
    def idle(self) -> bool:
        """No pod's life has to be looked at right now; timers may be set."""
        return self._queue.idle

    async def _register(self, machine: Machine) -> None:
        try:
            made = await self._client.create(NODES, node_object(machine, self._clock.now()), manager="kubelet")
            machine.uid = made["metadata"]["uid"]
        except AlreadyExists:
            await self._report_ready(machine)
        if self._shape.heartbeat:
            await self._new_lease(machine.plan.name)

    async def _new_lease(self, node: str) -> None:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": node, "namespace": LEASE_NAMESPACE},
            "spec": {
                "holderIdentity": node,
                "leaseDurationSeconds": int(self._shape.heartbeat * LEASE_PERIODS),
                "renewTime": micro(self._clock.now()),
            },
        }
        try:
            await self._client.create(LEASES, lease, manager="kubelet")
        except AlreadyExists:
            await self._renew(node)

    async def _report_ready(self, machine: Machine) -> None:
        known = self._cache.table(NODES).entries.get(("", machine.plan.name))
        before = cast("Node", known.typed).status.conditions if known is not None else ()
        body = {"status": {"conditions": node_conditions(self._clock.now(), machine.pressures, before)}}
        with contextlib.suppress(NotFound):
            node = await self._client.patch(NODES, "", machine.plan.name, body, subresource="status", manager="kubelet")
            machine.uid = node["metadata"]["uid"]

    # heartbeats

    async def _beat(self) -> None:
        """All nodes of a cluster in one go, at a moment of their own."""
        await asyncio.sleep(self._shape.heartbeat * self._dice.random())
        while True:
            began = self._now()
            await self._renew_all()
            if self._now() - began > self._shape.heartbeat:
                await self._renew_all(after_silence=True)
            await asyncio.sleep(self._shape.heartbeat)

    async def _renew_all(self, *, after_silence: bool = False) -> None:
        """After a silence, and where a node is not believed to be ready, its status is told as well."""
        for name, machine in list(self.machines.items()):
            if machine.up:
                with contextlib.suppress(ApiFault, OSError, TimeoutError):
                    await self._renew(name)
                    if after_silence or not self._thought_ready(name):
                        await self._return(machine)

    def _thought_ready(self, node: str) -> bool:
        entry = self._cache.table(NODES).entries.get(("", node))
        return entry is None or cast("Node", entry.typed).ready

    async def _renew(self, node: str) -> None:
        spec = {"renewTime": micro(self._clock.now())}
        try:
            lease = await self._client.patch(LEASES, LEASE_NAMESPACE, node, {"spec": spec}, manager="kubelet")
        except NotFound:
            await self._new_lease(node)
        else:
            if table := self._cache.known(LEASES.id):  # after a stall nobody may think of a lease that is renewed
                table.put(lease)

    # what may happen to nodes

    def fail(self, node: str) -> None:
        """The machine is gone from one moment to the next; nobody tells the API server."""
        self.machines[node].up = False

    async def recover(self, node: str) -> None:
        """The machine is back; what ran there starts again, unless it has been sent away meanwhile."""
        machine = self.machines[node]
        if machine.up:
            return
        machine.up = True
        for life in self._lives.values():
            if life.node == node:
                life.interrupt(self._now())
        if self._shape.heartbeat:
            await self._renew(node)
        await self._return(machine)

    async def _return(self, machine: Machine) -> None:
        """After a silence: say that the node is well, and how its pods are."""
        await self._report_ready(machine)
        for key, life in self._lives.items():
            if life.node == machine.plan.name:
                self._queue.add(key)

    async def press(self, node: str, what: str, *, on: bool = True) -> None:
        """The node becomes short of memory, disk, pid or cpu, or no longer is."""
        machine = self.machines[node]
        machine.pressures = machine.pressures | {what} if on else machine.pressures - {what}
        await self._report_ready(machine)

    async def add(self, plan: NodePlan) -> None:
        """Another machine joins the cluster."""
        machine = self.machines[plan.name] = Machine(plan, len(self.machines) + 1)
        await self._register(machine)
        for entry in list(self._cache.table(PODS).entries.values()):
            if entry.raw["spec"].get("nodeName") == plan.name:
                self._heard(None, entry)

    async def remove(self, node: str) -> None:
        """The machine leaves the cluster for good, and what ran there is gone."""
        await self._client.delete(NODES, "", node)

    def _node_heard(self, old: Entry | None, new: Entry | None) -> None:
        """Nobody will ever report on the pods of a node that was deleted: they are removed."""
        if new is not None or old is None or old.name[1] not in self.machines:
            return
        if self.machines[old.name[1]].uid != old.raw["metadata"]["uid"]:
            return  # late news of an earlier node of this name
        del self.machines[old.name[1]]
        for key, life in self._lives.items():
            if life.node == old.name[1]:
                life.leaving_at = self._now()
                self._queue.add(key)

    async def claim(self, factor: float) -> None:
        """Every node reports so many times what it really has; 1 is the truth."""
        for name, machine in self.machines.items():
            told = {
                resource: str(int(amount * factor)) + ("m" if resource == "cpu" else "")
                for resource, amount in machine.room.items()
            }
            told = machine.plan.pool.amounts if factor == 1 else told
            body = {"status": {"allocatable": told, "capacity": told}}
            await self._client.patch(NODES, "", name, body, subresource="status", manager="kubelet")

    # what may happen to pods

    def cast(self, spell: Spell) -> None:
        """From now on some pods behave otherwise; those that run are struck as well."""
        self.spells[spell.name] = spell
        self._feel(spell)

    def lift(self, name: str) -> None:
        if spell := self.spells.pop(name, None):
            self._feel(spell)

    def _feel(self, spell: Spell) -> None:
        now = self._now()
        for key, life in self._lives.items():
            entry = self._entry(key)
            if entry is not None and spell.holds(pod := cast("Pod", entry.typed)):
                before, life.behaviour = life.behaviour, self._behaviour(pod)
                if life.running_since is not None and before.crash != life.behaviour.crash:
                    life.running_since = now - life.behaviour.ready  # the clock of the crash begins now
                self._queue.add(key)

    def _behaviour(self, pod: Pod) -> Behaviour:
        behaviour = usual(pod, self._shape.pace, self._dice, self._shape.cluster)
        for name in sorted(self.spells):
            if self.spells[name].holds(pod):
                behaviour = behaviour._replace(**self.spells[name].changes)
        return behaviour

    # the lives of pods

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _wall(self, moment: float) -> datetime:
        return datetime.fromtimestamp(self._zero + moment, tz=self._clock.now().tzinfo)

    def _entry(self, key: Key) -> Entry | None:
        return self._cache.table(PODS).entries.get((key.namespace, key.name))

    def _heard(self, old: Entry | None, new: Entry | None) -> None:
        entry = new or cast("Entry", old)
        key = Key("pods", *entry.name)
        if new is None:
            self._forget(key)
            return
        node = new.raw["spec"].get("nodeName")
        if node not in self.machines:
            return
        metadata = new.raw["metadata"]
        life = self._lives.get(key)
        if life is None or life.uid != metadata["uid"]:
            self._forget(key)
            self._begin(key, cast("Pod", new.typed))
        elif metadata.get("deletionTimestamp") and life.leaving_at is None:
            life.leaving_at = self._leaving_at(life, metadata)
            self._queue.add(key)
        elif new.raw["spec"].get("readinessGates"):
            self._queue.add(key)

    def _leaving_at(self, life: Life, metadata: Raw) -> float:
        grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
        return self._now() + min(grace, life.behaviour.stop)

    def _begin(self, key: Key, pod: Pod) -> None:
        if pod.terminal and pod.metadata.deletion_timestamp is None:
            return
        life = Life(pod, self._behaviour(pod), self._now(), self._wall)
        if pod.metadata.deletion_timestamp is not None:
            life.leaving_at = self._now() + life.behaviour.stop
        self._lives[key] = life
        needs = demand(pod).requests
        machine = self.machines[life.node]
        here = self._admitted.setdefault(life.node, {})
        if pod.status.phase == "Running" or shortage(machine.room, here.values(), needs) is None:
            here[key] = needs
        else:
            life.admitted = False
        self._queue.add_after(key, 0.0 if life.admitted else REJECTION_SECONDS)

    def _forget(self, key: Key) -> None:
        self._queue.forget_timer(key)
        if life := self._lives.pop(key, None):
            self._admitted.get(life.node, {}).pop(key, None)

    async def _run(self) -> None:
        limit = asyncio.Semaphore(PARALLEL)
        running: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        try:
            while True:
                await limit.acquire()
                (key,) = await self._queue.take()
                task = loop.create_task(self._settle(key))
                running.add(task)
                task.add_done_callback(running.discard)
                task.add_done_callback(lambda _: limit.release())
        finally:
            for task in running:
                task.cancel()

    async def _settle(self, key: Key) -> None:
        try:
            await self._live(key)
            self._queue.succeeded(key)
        except (NotFound, Conflict):
            self._queue.retry(key)  # the news of what happened is on its way
        except (ApiFault, OSError, TimeoutError) as fault:
            log.warning("%s: cannot report %s: %s", self._shape.cluster, key, fault)
            self._queue.retry(key)
        finally:
            self._queue.done(key)

    async def _live(self, key: Key) -> None:
        life, entry = self._lives.get(key), self._entry(key)
        if life is None or entry is None:
            return
        machine = self.machines.get(life.node)
        if machine is None:
            await self._let_go(life, entry)
            return
        if not machine.up:
            return
        if not life.admitted:
            await self._reject(key, life, entry)
            return
        now = self._now()
        if life.leaving_at is not None and now + 1e-3 >= life.leaving_at:
            await self._end(key, life, entry)
            return
        due = life.advance(now)
        if due is None or due - now >= WORTH_TELLING_SECONDS:
            await self._report(life, entry, now)
        if life.ended is not None:
            self._admitted.get(life.node, {}).pop(key, None)
        waits = [moment for moment in (due, life.leaving_at) if moment is not None]
        if waits:
            self._queue.add_after(key, min(waits) - now)

    async def _report(self, life: Life, entry: Entry, now: float) -> None:
        """The status, unless the API server has it already."""
        status = life.status(entry.raw, now, self.machines[life.node].address)
        present = entry.raw.get("status") or {}
        if all(_alike(present.get(field), value) for field, value in status.items()):
            return
        await self._write(entry, status)

    async def _write(self, entry: Entry, status: Raw) -> None:
        metadata = {"uid": entry.raw["metadata"]["uid"], "resourceVersion": entry.revision}
        answer = await self._client.patch(
            PODS, *entry.name, {"metadata": metadata, "status": status}, subresource="status", manager="kubelet"
        )
        self._cache.table(PODS).put(answer)

    async def _reject(self, key: Key, life: Life, entry: Entry) -> None:
        """What the scheduler was told there is room for, there may be none."""
        pod = cast("Pod", entry.typed)
        needs, machine = demand(pod).requests, self.machines[life.node]
        here = self._admitted.setdefault(life.node, {})
        lacking = shortage(machine.room, here.values(), needs)
        if lacking is None:
            life.admitted = True
            here[key] = needs
            self._queue.add(key)
            return
        used = len(here) if lacking == "pods" else sum(other.get(lacking, 0) for other in here.values())
        said = (
            f"Pod was rejected: Node didn't have enough resource: {lacking}, requested: {needs.get(lacking, 1)}, "
            f"used: {used}, capacity: {machine.room.get(lacking, 0)}"
        )
        del self._lives[key]
        await self._write(entry, {"phase": "Failed", "reason": f"OutOf{lacking}", "message": said})

    async def _end(self, key: Key, life: Life, entry: Entry) -> None:
        """The pod has stopped: say so to those who wait for it, and let it go."""
        if entry.raw["metadata"].get("finalizers") and life.ended is None:
            life.stop(self._now())
            await self._report(life, entry, self._now())
        await self._let_go(life, entry)

    async def _let_go(self, life: Life, entry: Entry) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(PODS, *entry.name, uid=life.uid, grace_seconds=0)


def shortage(room: Mapping[str, int], others: Iterable[Mapping[str, int]], needs: Mapping[str, int]) -> str | None:
    """The resource that a machine has not enough of for one more pod."""
    others = list(others)
    if len(others) + 1 > room.get("pods", 0):
        return "pods"
    for resource, amount in needs.items():
        if amount + sum(other.get(resource, 0) for other in others) > room.get(resource, 0):
            return resource
    return None


def _alike(present: object, wanted: object) -> bool:
    """Equal, where an API server writes nothing for null and empty."""
    if isinstance(wanted, dict):
        there = present if isinstance(present, dict) else {}
        return all(_alike(there.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        there_too = present if isinstance(present, list) else []
        return len(there_too) == len(wanted) and all(map(_alike, there_too, wanted))
    return present == wanted or (not present and not wanted)


def micro(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


PRESSURES = {
    "memory": ("MemoryPressure", "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory", "memory"),
    "disk": ("DiskPressure", "KubeletHasDiskPressure", "KubeletHasNoDiskPressure", "disk space"),
    "pid": ("PIDPressure", "KubeletHasInsufficientPID", "KubeletHasSufficientPID", "PID"),
}
CPU = ("CPUPressure", "ContainersWaitForCPU", "ContainersGetTheirCPU", "CPU")
"""No stock kubelet has this condition; where one is, somebody looks at the pressure stall information of nodes."""


def node_conditions(
    now: datetime, pressures: Collection[str] = (), before: Collection[NodeCondition] = ()
) -> list[Raw]:
    since = {(one.type, one.status): one.last_transition_time for one in before}

    def said(type_: str, status: str, reason: str, message: str) -> Raw:
        times = {
            "lastHeartbeatTime": timestamp(now),
            "lastTransitionTime": timestamp(since.get((type_, status)) or now),
        }
        return {"type": type_, "status": status, **times, "reason": reason, "message": message}

    told = []
    looked_at = {"cpu": CPU} if "cpu" in pressures or any(one.type == CPU[0] for one in before) else {}
    for name, (type_, short, enough, what) in {**PRESSURES, **looked_at}.items():
        if name in pressures:
            told.append(said(type_, "True", short, f"kubelet has insufficient {what} available"))
        else:
            told.append(said(type_, "False", enough, f"kubelet has sufficient {what} available"))
    return [*told, said("Ready", "True", "KubeletReady", "kubelet is posting ready status")]


def node_object(machine: Machine, now: datetime) -> Raw:
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
            "capacity": pool.amounts,
            "allocatable": pool.amounts,
            "conditions": node_conditions(now, machine.pressures),
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "Hostname", "address": plan.name},
            ],
            "nodeInfo": {
                "kubeletVersion": VERSION,
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
