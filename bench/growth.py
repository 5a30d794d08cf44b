"""How costs grow with the number of workloads and of clusters: `python -m bench.growth [--workloads 100 ...] [--calls]`.

A whole fleet in one process (`bench/embedded_fleet.py`) goes through the steps of `STEPS` at several sizes. For every
step the exponent of its CPU time against the size is fitted: 1 is linear, 0 is independent. Exits with 1 if a step
grows faster than its limit. Each size runs in a process of its own, and the fastest of `--repeat` runs counts, because
other processes can only make a run slower. With `--calls` the cost is the number of function calls, which is the same on a
busy machine; what a single call of a library does is not seen then. Prints JSON.
"""

import argparse
import asyncio
import gc
import json
import math
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from bench.call_count import calls_during
from bench.embedded_fleet import (
    BINDINGS,
    CLUSTERS,
    DEPLOYMENTS,
    NAMESPACE,
    MeasuredFleet,
    deployment,
    resident_mebibytes,
)
from bench.processes import collect_garbage_as_servers_do, machine
from bench.recorded import print_changes

from trimtab.api.kinds.work import ResourceBinding
from trimtab.clock import run_virtually

LINEAR, INDEPENDENT = 1.15, 0.2
WORKLOADS, MEMBERS = (60, 120, 240, 480), (21, 63, 189)
FIXED_WORKLOADS, FIXED_MEMBERS = 120, 21
IDLE_SECONDS = 60.0
LISTS = 10


class GrowthLimits(NamedTuple):
    """The largest exponents of the CPU time of a step."""

    by_workloads: float
    by_members: float


STEPS = {
    "start of the fleet": GrowthLimits(LINEAR, LINEAR),
    "create": GrowthLimits(LINEAR, INDEPENDENT),
    "settle": GrowthLimits(LINEAR, INDEPENDENT),
    "scale": GrowthLimits(LINEAR, INDEPENDENT),
    "cluster change": GrowthLimits(LINEAR, INDEPENDENT),
    "idle minute": GrowthLimits(INDEPENDENT, LINEAR),
    "list": GrowthLimits(LINEAR, INDEPENDENT),
    "watch": GrowthLimits(LINEAR, INDEPENDENT),
    "restart": GrowthLimits(LINEAR, LINEAR),
    "cluster loss": GrowthLimits(LINEAR, INDEPENDENT),
}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, nargs="+", default=WORKLOADS)
    parser.add_argument("--members", type=int, nargs="+", default=MEMBERS)
    parser.add_argument("--repeat", type=int, help="runs of each size; 2 by default, 1 with --calls")
    parser.add_argument("--calls", action="store_true", help="count function calls instead of CPU time")
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        collect_garbage_as_servers_do()
        print(json.dumps(run_virtually(measure_steps(*given.one, in_calls=given.calls))))
        return
    measure = partial(cheapest, repeat=given.repeat or (1 if given.calls else 2), in_calls=given.calls)
    by_workloads = {size: measure(size, FIXED_MEMBERS) for size in given.workloads}
    by_members = {size: measure(FIXED_WORKLOADS, size) for size in given.members}
    unit = "thousandCalls" if given.calls else "cpuMs"
    rows = [growth_of(step, by_workloads, by_members, unit) for step in STEPS]
    found = {"part": "growth", "machine": machine(), "steps": rows}
    print(json.dumps(found, indent=1))
    print_changes("growth", found, sys.stderr)
    if too_steep := [row["step"] for row in rows if row["exceeds"]]:
        sys.exit(f"costs grow too fast: {', '.join(too_steep)}")


def cheapest(workloads: int, members: int, *, repeat: int, in_calls: bool) -> dict[str, float]:
    """The least cost of every step, in CPU seconds or in millions of calls."""
    command = [sys.executable, "-m", "bench.growth", "--one", str(workloads), str(members)]
    command += ["--calls"] if in_calls else []
    runs = []
    for _ in range(repeat):
        print(f"{workloads} workloads, {members} members", file=sys.stderr, flush=True)
        runs.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
    return {step: min(run[step] for run in runs) for step in STEPS}


def growth_of(
    step: str, by_workloads: Mapping[int, dict[str, float]], by_members: Mapping[int, dict[str, float]], unit: str
) -> dict[str, Any]:
    limits = STEPS[step]
    workloads = {size: costs[step] for size, costs in by_workloads.items()}
    members = {size: costs[step] for size, costs in by_members.items()}
    exponents = exponent_of(workloads), exponent_of(members)
    return {
        "step": step,
        f"{unit}ByWorkloads": in_thousandths(workloads),
        "exponentByWorkloads": round(exponents[0], 2),
        "limitByWorkloads": limits.by_workloads,
        f"{unit}ByMembers": in_thousandths(members),
        "exponentByMembers": round(exponents[1], 2),
        "limitByMembers": limits.by_members,
        "exceeds": exponents[0] > limits.by_workloads or exponents[1] > limits.by_members,
    }


def in_thousandths(costs: Mapping[int, float]) -> dict[int, float]:
    return {size: round(cost * 1e3, 1) for size, cost in costs.items()}


def exponent_of(costs: Mapping[int, float]) -> float:
    """The slope of the line through the logarithms of sizes and costs that fits best."""
    points = [(math.log(size), math.log(max(cost, 1e-6))) for size, cost in costs.items()]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


async def measure_steps(workloads: int, members: int, *, in_calls: bool = False) -> dict[str, float]:
    """The CPU seconds, or millions of calls, of every step, one after the other on one fleet."""
    cost_of = millions_of_calls if in_calls else cpu_seconds
    starting: list[MeasuredFleet] = []

    async def start() -> None:
        starting.append(await MeasuredFleet.start(members))

    costs = {"start of the fleet": await cost_of(start)}
    (fleet,) = starting
    await fleet.prepare()
    steps = FleetSteps(fleet, workloads)
    runs: dict[str, Callable[[], Awaitable[None]]] = {
        "create": steps.create,
        "settle": steps.settle,
        "scale": steps.scale,
        "cluster change": steps.change_cluster,
        "idle minute": steps.idle,
        "list": steps.list_bindings,
        "watch": steps.watch,
        "restart": steps.restart,
        "cluster loss": steps.lose_cluster,
    }
    for step, run in runs.items():
        costs[step] = await cost_of(run)
    costs["residentMiB"] = resident_mebibytes()
    await fleet.stop()
    return costs


async def cpu_seconds(step: Callable[[], Awaitable[None]]) -> float:
    gc.collect()
    began = time.process_time()
    await step()
    return time.process_time() - began


async def millions_of_calls(step: Callable[[], Awaitable[None]]) -> float:
    return await calls_during(step()) / 1e6


class FleetSteps:
    """The measured steps."""

    def __init__(self, fleet: MeasuredFleet, workloads: int) -> None:
        self._fleet = fleet
        self._client = fleet.client
        self._workloads = workloads
        self._groups = fleet.shape.group_count(fleet.members)

    async def create(self) -> None:
        """Creates that no policy selects: the API server, the caches, and the decision that there is nothing to do."""
        for number in range(self._workloads):
            await self._client.create(DEPLOYMENTS, deployment(number, self._groups, "unplaced"))
        await self._fleet.settle()

    async def settle(self) -> None:
        """From the create to ready replicas in six clusters."""
        await self._fleet.create(self._workloads)

    async def scale(self) -> None:
        await self._patch_workloads({"spec": {"replicas": 12}})

    async def _patch_workloads(self, patch: dict[str, Any]) -> None:
        for number in range(self._workloads):
            await self._client.patch(DEPLOYMENTS, NAMESPACE, f"web-{number}", patch)
            await asyncio.sleep(0)
        await self._fleet.settle()

    async def change_cluster(self) -> None:
        """Labels of one cluster change ten times."""
        for number in range(10):
            await self._client.patch(CLUSTERS, "", "member0", {"metadata": {"labels": {"colour": str(number)}}})
            await self._fleet.settle()

    async def idle(self) -> None:
        await asyncio.sleep(IDLE_SECONDS)

    async def list_bindings(self) -> None:
        for _ in range(LISTS):
            await self._client.list(BINDINGS, NAMESPACE)

    async def watch(self) -> None:
        """A client reads one change of every binding."""
        before = (await self._client.list(BINDINGS, NAMESPACE)).revision
        for number in range(self._workloads):
            label = {"metadata": {"labels": {"watched": "true"}}}
            await self._client.patch(BINDINGS, NAMESPACE, f"web-{number}-deployment", label)
        seen = 0
        async for changes in self._client.watch(BINDINGS, NAMESPACE, revision=before):
            seen += len(changes)
            if seen >= self._workloads:
                return

    async def restart(self) -> None:
        """Controllers that start on settled workloads find nothing to write."""
        await self._fleet.fleet.stop_plane()
        await self._fleet.fleet.start_plane()
        await self._fleet.settle()

    async def lose_cluster(self) -> None:
        """One cluster dies: its replicas go to the seventh cluster of its group."""
        self._fleet.fleet.world["member0"].stop_api()
        await self._fleet.wait_until(self._is_evacuated)
        await self._fleet.settle()

    async def _is_evacuated(self) -> bool:
        assert self._fleet.fleet.plane is not None
        bindings = self._fleet.fleet.plane.cache.table_of(ResourceBinding).entries.values()
        placed = (cast("ResourceBinding", entry.typed).spec.clusters for entry in bindings)
        return not any(target.name == "member0" for clusters in placed for target in clusters)


if __name__ == "__main__":
    main(sys.argv[1:])
