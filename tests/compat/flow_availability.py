"""Counts the ready replicas of every workload over all members at every change, to detect a service gap."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from trimtab.store.records import StoreEvent
from trimtab.store.store import Store

PODS = "/registry/core/pods/"
COUNTED_OWNERS = {"ReplicaSet": "Deployment", "StatefulSet": "StatefulSet"}
"""The owner kinds of service pods, and the workload kind of each; Jobs provide no service."""


class Workload(NamedTuple):
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


class Gap(NamedTuple):
    """For a time fewer replicas were ready than both before and after."""

    workload: Workload
    floor: int
    lowest: int


class AvailabilityObserver:
    """Ready pods by member, and the minimum since the last reset."""

    def __init__(self, members: Mapping[str, Store]) -> None:
        self._members = members
        self._ready: dict[Workload, set[tuple[str, str]]] = {}
        self._initial: dict[Workload, int] = {}
        self._minimum: dict[Workload, int] = {}
        self._watch_tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._watch_tasks = [loop.create_task(self._watch(name, store)) for name, store in self._members.items()]

    def stop(self) -> None:
        for task in self._watch_tasks:
            task.cancel()

    def reset(self) -> None:
        """Start counting from the current state."""
        self._initial = {workload: len(pods) for workload, pods in self._ready.items()}
        self._minimum = dict(self._initial)

    def gaps(self) -> Iterator[Gap]:
        """Workloads that fell below both their initial and their current number of ready replicas."""
        for workload, lowest in sorted(self._minimum.items()):
            floor = min(self._initial.get(workload, 0), len(self._ready.get(workload, ())))
            if lowest < floor:
                yield Gap(workload, floor, lowest)

    async def _watch(self, member: str, store: Store) -> None:
        async for events in store.watch(PODS):
            for event in events:
                self._on_pod_event(member, event)

    def _on_pod_event(self, member: str, event: StoreEvent) -> None:
        value = event.value or event.prev_value
        pod: dict[str, Any] = json.loads(value) if value else {}
        workload = workload_of(pod)
        if workload is None:
            return
        ready = self._ready.setdefault(workload, set())
        if event.value is not None and is_ready(pod):
            ready.add((member, event.key))
        else:
            ready.discard((member, event.key))
        self._minimum[workload] = min(self._minimum.get(workload, 0), len(ready))


def workload_of(pod: dict[str, Any]) -> Workload | None:
    """The Deployment or StatefulSet that a pod belongs to."""
    metadata = pod.get("metadata", {})
    for owner in metadata.get("ownerReferences") or ():
        if owner["kind"] in COUNTED_OWNERS:
            name = owner["name"].rpartition("-")[0] if owner["kind"] == "ReplicaSet" else owner["name"]
            return Workload(COUNTED_OWNERS[owner["kind"]], metadata["namespace"], name)
    return None


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")
