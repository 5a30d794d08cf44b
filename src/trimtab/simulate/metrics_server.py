"""The metrics server of a simulated cluster, which also sets CPU pressure on nodes."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence

from trimtab.api.kinds.native.pod import Pod
from trimtab.api.quantity import from_milli
from trimtab.api.value import Raw
from trimtab.clock import Clock, timestamp
from trimtab.decide.pods.fit.requests import Amounts
from trimtab.errors import ApiError
from trimtab.server.registry.object_reader import ComputedObjects
from trimtab.simulate.kubelets.kubelets import Kubelets
from trimtab.simulate.usage import SimulatedUsage

CHECK_INTERVAL_SECONDS = 10.0
WINDOW = "15s"
CPU_PRESSURE_PERCENT = 40.0
"""Percentage of waiting time above which a node reports CPU pressure."""


class MetricsServer:
    """Computes the usage of nodes and pods on request, and sets CPU pressure periodically."""

    def __init__(
        self, usage: SimulatedUsage, pods: Callable[[], Sequence[Pod]], kubelets: Kubelets, clock: Clock
    ) -> None:
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
        for name, pods, room in self._running_machines():
            used = self._usage.actual_usage(pods, room)
            total = {what: sum(one.get(what, 0) for one in used) for what in ("cpu", "memory")}
            yield {"metadata": {"name": name}, **self._time_fields(), "usage": format_usage(total)}

    def pods(self) -> Iterator[Raw]:
        for _, pods, room in self._running_machines():
            for pod, used in zip(pods, self._usage.actual_usage(pods, room), strict=True):
                parts = len(pod.spec.containers)
                part = format_usage({what: amount // parts for what, amount in used.items()})
                yield {
                    "metadata": {"name": pod.name, "namespace": pod.namespace, "labels": pod.metadata.labels},
                    **self._time_fields(),
                    "containers": [{"name": container.name, "usage": part} for container in pod.spec.containers],
                }

    def _time_fields(self) -> Raw:
        return {"timestamp": timestamp(self._clock.now()), "window": WINDOW}

    def _running_machines(self) -> Iterator[tuple[str, list[Pod], Amounts]]:
        """Machines that are up, with their running pods and their actual capacity."""
        running: dict[str, list[Pod]] = {}
        for pod in self._pods():
            if pod.status.phase == "Running":
                running.setdefault(pod.spec.node_name, []).append(pod)
        for name, machine in self._kubelets.machines.items():
            if machine.up:
                yield name, running.get(name, []), machine.capacity

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
            with contextlib.suppress(ApiError, OSError, TimeoutError):
                await self._update_cpu_pressure()

    async def _update_cpu_pressure(self) -> None:
        under_pressure = {name for name, machine in self._kubelets.machines.items() if "cpu" in machine.pressures}
        if not under_pressure and not self._usage.has_loads:
            return  # all pods use the default
        short = {
            name
            for name, pods, room in self._running_machines()
            if self._usage.cpu_waiting_percent(pods, room) > CPU_PRESSURE_PERCENT
        }
        for name in sorted(under_pressure ^ short):
            await self._kubelets.set_pressure(name, "cpu", on=name in short)


def format_usage(usage: Amounts) -> Raw:
    return {"cpu": from_milli(usage.get("cpu", 0)), "memory": f"{usage.get('memory', 0) >> 10}Ki"}
