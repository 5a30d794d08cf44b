"""The metrics server of a simulated cluster, which also sets CPU pressure on nodes."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.quantity import from_milli
from trimtab.api.value import Raw
from trimtab.clock import Clock, timestamp
from trimtab.decide.pods.fit.requests import Amounts
from trimtab.errors import ApiFault
from trimtab.server.registry.resource_store import ComputedObjects
from trimtab.simulate.kubelet import Kubelets
from trimtab.simulate.usage import Usage

LOOKS_EVERY_SECONDS = 10.0
WINDOW = "15s"
TOO_MUCH = 40.0
"""Percentage of waiting time above which a node reports CPU pressure."""


class Meter:
    """Computes the usage of nodes and pods on request, and sets CPU pressure periodically."""

    def __init__(self, usage: Usage, pods: Callable[[], Sequence[Pod]], kubelets: Kubelets, clock: Clock) -> None:
        self._usage, self._pods, self._kubelets, self._clock = usage, pods, kubelets, clock
        self._task: asyncio.Task[None] | None = None

    def sources(self) -> dict[str, ComputedObjects]:
        """The sources of the resources that the API server serves as `metrics.k8s.io`."""
        return {"nodes.metrics.k8s.io": self.nodes, "pods.metrics.k8s.io": self.pods}

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="metrics-server")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def nodes(self) -> Iterator[Raw]:
        for name, pods, room in self._machines():
            used = self._usage.shares(pods, room)
            total = {what: sum(one.get(what, 0) for one in used) for what in ("cpu", "memory")}
            yield {"metadata": {"name": name}, **self._moment(), "usage": told(total)}

    def pods(self) -> Iterator[Raw]:
        for _, pods, room in self._machines():
            for pod, used in zip(pods, self._usage.shares(pods, room), strict=True):
                parts = len(pod.spec.containers)
                part = told({what: amount // parts for what, amount in used.items()})
                yield {
                    "metadata": {"name": pod.name, "namespace": pod.namespace, "labels": pod.metadata.labels},
                    **self._moment(),
                    "containers": [{"name": container.name, "usage": part} for container in pod.spec.containers],
                }

    def _moment(self) -> Raw:
        return {"timestamp": timestamp(self._clock.now()), "window": WINDOW}

    def _machines(self) -> Iterator[tuple[str, list[Pod], Amounts]]:
        """Machines that are up, with their running pods and their actual capacity."""
        running: dict[str, list[Pod]] = {}
        for pod in self._pods():
            if pod.status.phase == "Running":
                running.setdefault(pod.spec.node_name, []).append(pod)
        for name, machine in self._kubelets.machines.items():
            if machine.up:
                yield name, running.get(name, []), machine.room

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOKS_EVERY_SECONDS)
            with contextlib.suppress(ApiFault, OSError, TimeoutError):
                await self._look()

    async def _look(self) -> None:
        under_pressure = {name for name, machine in self._kubelets.machines.items() if "cpu" in machine.pressures}
        if not under_pressure and not self._usage.loaded:
            return  # all pods use the default
        short = {name for name, pods, room in self._machines() if self._usage.waiting(pods, room) > TOO_MUCH}
        for name in sorted(under_pressure ^ short):
            await self._kubelets.press(name, "cpu", on=name in short)


def told(used: Amounts) -> Raw:
    return {"cpu": from_milli(used.get("cpu", 0)), "memory": f"{used.get('memory', 0) >> 10}Ki"}
