"""The workload controllers, scheduler and kubelets of a lean member in one: they keep numbers instead of pods.

A change of a workload places or removes replicas on the nodes at once. New ones become ready after the start time of
the member's pace; then the status is written again. One task per member reads the changes of its store, so a member
without changes costs nothing.
"""

import asyncio
import contextlib
import hashlib
import logging
import random
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import orjson

from trimtab.api.kind import Kind
from trimtab.api.kinds.work import ReplicaRequirements
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import Clock
from trimtab.controllers.movement.unschedulable_replicas import UnschedulablePod
from trimtab.decide.pods.fit.requests import Amounts, parse_amounts
from trimtab.errors import Conflict, Expired, NotFound
from trimtab.interpret.native.replicas import REPLICAS
from trimtab.server.apiserver import ApiServer
from trimtab.simulate.fleet import Pace
from trimtab.simulate.lean.nodes import LeanNodes, PodSize, ReplicaCounts
from trimtab.simulate.lean.workload_status import STATUS, ReplicaState
from trimtab.store.keys import ROOT, resource_prefix
from trimtab.store.records import StoredEntry, StoreEvent
from trimtab.store.watch import StoreWatch
from trimtab.tasks import LoggedFailure

FIELD_MANAGER = "kube-controller-manager"
log = logging.getLogger("trimtab.simulate.lean")


class _Workload(NamedTuple):
    """What runs of one workload, as of its last change."""

    size: PodSize
    counts: ReplicaCounts
    desired: int
    ready: int
    template: bytes
    """Digest of the pod template, to see whether it changed."""
    waits_since: datetime | None = None
    """Since when some replicas have found no node."""
    completed: int = 0


class LeanWorkloads:
    """All workloads of one lean member."""

    def __init__(
        self, server: ApiServer, client: Client, nodes: LeanNodes, pace: Pace, *, clock: Clock, rng: random.Random
    ) -> None:
        self._server = server
        self._client = client
        self._nodes = nodes
        self._pace = pace
        self._clock = clock
        self._rng = rng
        self._resources = dict(_served_kinds(server))
        self._workloads: dict[str, _Workload] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._due: dict[str, None] = {}
        self._own_revisions: dict[str, int] = {}
        """The revisions of status writes of this class that were not read back yet."""
        self._wake: asyncio.Future[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.change_count = 0
        """Changes so far of what is used on the nodes."""

    async def start(self) -> None:
        """Place what is stored, then follow changes."""
        watch = self._list()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._follow(watch)), loop.create_task(self._write_due())]

    def _list(self) -> StoreWatch:
        """Place what is stored, forget what no longer is, and return a watch of later changes."""
        watch = self._server.store.watch(ROOT)
        stored = [entry for prefix in self._resources for entry in self._server.store.list(prefix).entries]
        keys = {entry.key for entry in stored}
        for key in [key for key in self._workloads if key not in keys]:
            self._forget(key)
        for entry in stored:
            self._reconcile(entry)
        return watch

    async def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def is_idle(self) -> bool:
        return not self._due and not self._timers

    @property
    def replicas(self) -> int:
        """Replicas that run on a node."""
        return sum(sum(workload.counts) for workload in self._workloads.values())

    def pending(self) -> Amounts:
        """What the replicas request that have found no node."""
        total: Amounts = {}
        for workload in self._workloads.values():
            missing = workload.desired - sum(workload.counts)
            if missing > 0:
                for name, amount in workload.size.requests.items():
                    total[name] = total.get(name, 0) + missing * amount
        return total

    def unschedulable(self) -> tuple[UnschedulablePod, ...]:
        """One entry for each replica of a Deployment that has found no node."""
        prefix = resource_prefix("apps", "deployments")
        found = []
        for key, workload in self._workloads.items():
            if workload.waits_since is not None and key.startswith(prefix):
                namespace, _, name = key.removeprefix(prefix).partition("/")
                pod = UnschedulablePod(namespace, name, "lean", workload.waits_since)
                found += [pod] * (workload.desired - sum(workload.counts))
        return tuple(sorted(found, key=lambda pod: pod.since))

    async def _follow(self, watch: StoreWatch) -> None:
        while True:
            try:
                async for events in watch:
                    self._handle(events)
            except Expired:  # more was written at once than the small history of the store keeps
                watch = self._list()
            else:
                return  # the store is closed

    def _handle(self, events: Sequence[StoreEvent]) -> None:
        for event in events:
            is_own = self._own_revisions.pop(event.key, 0) == event.revision
            if event.entry is None:
                self._forget(event.key)
            elif not is_own:
                self._reconcile(event.entry)

    def _reconcile(self, entry: StoredEntry) -> None:
        """Place the replicas of a workload whose object was written."""
        kind = self._resources.get(_prefix_of(entry.key))
        if kind is None:
            return
        obj = _object_of(entry, kind)
        desired, requirements = REPLICAS[kind.api_version, kind.name](obj)
        template = digest_of((obj.get("spec") or {}).get("template"))
        before = self._workloads.get(entry.key)
        if before is not None and before.desired == desired and before.template == template:
            return  # a write of the status, or of metadata
        self._place(entry.key, before, desired, pod_size(requirements), template)
        self._write_soon(entry.key)
        self._start_timer(entry.key, kind)

    def _place(self, key: str, before: _Workload | None, desired: int, size: PodSize, template: bytes) -> None:
        if before is not None:
            self._nodes.release(before.size, before.counts)
        counts = self._nodes.place(size, desired)
        placed = sum(counts)
        ready = min(before.ready if before is not None else 0, placed)
        waits_since = None
        if placed < desired:
            waits_since = (before.waits_since if before is not None else None) or self._clock.now()
        self._workloads[key] = _Workload(size, counts, desired, ready, template, waits_since)
        self.change_count += 1

    def _forget(self, key: str) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if workload := self._workloads.pop(key, None):
            self._nodes.release(workload.size, workload.counts)
            self.change_count += 1
            for waiting, other in list(self._workloads.items()):
                if other.waits_since is not None:
                    self._place(waiting, other, other.desired, other.size, other.template)
                    self._write_soon(waiting)
                    self._start_timer(waiting, self._resources[_prefix_of(waiting)])

    def _start_timer(self, key: str, kind: Kind) -> None:
        """Let the placed replicas become ready, or a Job complete, after the time of the pace."""
        workload = self._workloads[key]
        is_job = kind.name == "Job"
        if workload.ready >= sum(workload.counts) and not is_job:
            return
        seconds = self._pace.start + self._pace.ready + (self._pace.run if is_job else 0.0)
        seconds *= 1 + self._pace.jitter * self._rng.random()
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if seconds:
            self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._time_over, key, is_job)
        else:
            self._time_over(key, is_job)

    def _time_over(self, key: str, is_job: bool) -> None:
        self._timers.pop(key, None)
        workload = self._workloads[key]
        placed = sum(workload.counts)
        self._workloads[key] = workload._replace(ready=placed, completed=placed if is_job else 0)
        self._write_soon(key)

    def _write_soon(self, key: str) -> None:
        self._due[key] = None
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _write_due(self) -> None:
        while True:
            while self._due:
                key = next(iter(self._due))
                del self._due[key]
                with LoggedFailure(log, "cannot write the status of %s", key):
                    await self._write_status(key)
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    async def _write_status(self, key: str) -> None:
        entry, workload = self._server.store.get(key), self._workloads.get(key)
        if entry is None or workload is None:
            return
        kind = self._resources[_prefix_of(key)]
        obj = _object_of(entry, kind)
        placed = sum(workload.counts)
        state = ReplicaState(workload.desired, placed, workload.ready, placed, workload.completed)
        status = STATUS[kind.group, kind.plural](obj, state, self._clock.now())
        present = obj.get("status") or {}
        if all(present.get(name, 0) == value for name, value in status.items()):  # zeros are not stored
            return
        metadata = obj["metadata"]
        resource = Resource(kind.group, kind.version, kind.plural, kind.name)
        with contextlib.suppress(NotFound, Conflict):
            written = await self._client.patch(
                resource,
                metadata.get("namespace", ""),
                metadata["name"],
                {"status": status},
                subresource="status",
                manager=FIELD_MANAGER,
            )
            if written["metadata"].get("generation") == metadata.get("generation"):  # nobody changed the spec meanwhile
                self._own_revisions[key] = int(written["metadata"]["resourceVersion"])


def digest_of(template: Any) -> bytes:
    return hashlib.blake2b(orjson.dumps(template, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


def pod_size(requirements: Raw | None) -> PodSize:
    """What one replica needs, as the interpreter reports it."""
    found = msgspec.convert(requirements or {}, ReplicaRequirements, strict=False)
    return PodSize({**parse_amounts(found.resource_request), "pods": 1}, found.node_claim)


def _served_kinds(server: ApiServer) -> Iterator[tuple[str, Kind]]:
    for group, plural in STATUS:
        served = server.catalogue.find(group, "v1", plural)
        if served is not None:
            yield served.prefix, served.kind


def _prefix_of(key: str) -> str:
    """The prefix of the resource to which a key belongs."""
    group, resource = key.removeprefix(ROOT).split("/", 2)[:2]
    return resource_prefix(group, resource)


def _object_of(entry: StoredEntry, kind: Kind) -> Raw:
    found: Raw = orjson.loads(entry.value)
    return {"apiVersion": kind.api_version, "kind": kind.name, **found}
