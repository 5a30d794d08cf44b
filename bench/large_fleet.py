"""A very large fleet in one process: `python -m bench.large_fleet [--clusters 1000] [--workloads 100000] [--samples FILE]`.

Lean clusters, each workload with ten replicas in three of them, created in batches on the virtual clock. After every batch
one line of JSON is appended to the file of samples: workloads, CPU and wall seconds so far, memory. `--seconds` ends the
creation early, so that a busy machine gives figures for a smaller fleet. Then the fleet is left alone for two virtual minutes (in
the first one clusters still report the load of the last workloads), and the controllers are restarted: with what they saved, and
with `--whole` once more without, which reconciles everything. With `--lose-region` a fifth of the clusters then goes dark and
returns, under a DisruptionBudget of one unavailable replica. Prints JSON; exits with 1 if replicas are missing or a restart writes.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.embedded_fleet import MeasuredFleet, WorkloadShape, fleet_plan, resident_mebibytes
from bench.processes import collect_garbage_as_servers_do, machine
from bench.scale import FleetChapters, create_budget

from trimtab.clock import run_virtually

SHAPE = WorkloadShape(replicas=10, clusters=3, group_size=40)
BATCH = 1000
IDLE_SECONDS = 60.0
SETTINGS = {"eviction-rate": 20.0}
"""Evictions per second; with the default of 1.5 a region with 100,000 workloads would take eleven hours."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--workloads", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=36_000, help="create no further batch after so many seconds")
    parser.add_argument("--samples", type=Path, default=Path("bench/results/large_fleet.jsonl"))
    parser.add_argument("--whole", action="store_true", help="also restart without a state file")
    parser.add_argument("--lose-region", action="store_true", help="a region goes dark and returns")
    given = parser.parse_args(arguments)
    given.samples.parent.mkdir(parents=True, exist_ok=True)
    collect_garbage_as_servers_do()
    samples = Samples(given.samples)
    with tempfile.TemporaryDirectory() as folder:
        state_file = Path(folder, "state")
        found = run_virtually(measure(given, state_file, samples))
    print(json.dumps({"part": "large fleet", "machine": machine(), **found}, indent=1))
    if found["readyReplicas"] != found["workloads"] * SHAPE.replicas:
        sys.exit(f"{found['readyReplicas']} of {found['workloads'] * SHAPE.replicas} replicas are ready")
    if any(one["writes"] for one in found["restarts"]):
        sys.exit(f"a restart wrote: {found['restarts']}")


class Samples:
    """Appends figures to a file as they are measured."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def add(self, step: str, **figures: Any) -> dict[str, Any]:
        sample = {
            "step": step,
            **figures,
            "cpuSeconds": round(time.process_time(), 1),
            "seconds": round(self.seconds, 1),
            "residentMiB": round(resident_mebibytes()),
        }
        with self._path.open("a") as file:
            file.write(json.dumps(sample) + "\n")
        return sample


async def measure(given: argparse.Namespace, state_file: Path, samples: Samples) -> dict[str, Any]:
    clusters, workloads = given.clusters, given.workloads
    plan = fleet_plan(clusters, cpu="640", shape=SHAPE)
    fleet = await MeasuredFleet.start(clusters, plan, SHAPE, SETTINGS, state_file)
    samples.add("started", clusters=clusters, stepCpuSeconds=round(fleet.steps["start"].cpu_seconds, 1))
    await fleet.prepare()
    samples.add("prepared")
    first = 0
    while first < workloads and samples.seconds < given.seconds:
        count = min(BATCH, workloads - first)
        # A collection of the whole heap before every batch would take longer than the batch.
        cost = await fleet.measure("create", partial(fleet.create, count, first), collect_before=False)
        samples.add(
            "created",
            workloads=(first := first + count),
            cpuMsPerWorkload=round(cost.cpu_seconds / count * 1e3, 2),
            writesPerWorkload=round(cost.writes / count, 1),
        )
    ready = await fleet.ready_replicas()
    samples.add("counted", readyReplicas=ready)
    idle = [await measure_idle_minute(fleet, samples) for _ in range(2)]
    restarts = [
        await restart(fleet, state_file, samples, is_whole=is_whole) for is_whole in (False, True)[: 1 + given.whole]
    ]
    chapters = await lose_region(fleet, first, samples) if given.lose_region else {}
    if chapters:
        ready = await fleet.ready_replicas()
    await fleet.stop()
    return {
        "clusters": clusters,
        "workloads": first,
        "readyReplicas": ready,
        "chapters": chapters,
        "idlePercentOfACore": [one["percentOfACore"] for one in idle],
        "restarts": restarts,
        "residentMiB": round(resident_mebibytes()),
    }


async def measure_idle_minute(fleet: MeasuredFleet, samples: Samples) -> dict[str, Any]:
    idle = await fleet.measure("idle", lambda: asyncio.sleep(IDLE_SECONDS))
    return samples.add(
        "idle minute", percentOfACore=round(idle.cpu_seconds / IDLE_SECONDS * 100, 2), writes=idle.writes
    )


async def restart(fleet: MeasuredFleet, state_file: Path, samples: Samples, *, is_whole: bool) -> dict[str, Any]:
    """Stop and start the controllers; `is_whole`: without what they saved."""
    began = time.monotonic()
    stop = await fleet.measure("stop", fleet.fleet.stop_plane)
    size = size_of(state_file, remove=is_whole)
    start = await fleet.measure("restart", lambda: start_controllers(fleet))
    return samples.add(
        "restarted without a state file" if is_whole else "restarted",
        stopCpuSeconds=round(stop.cpu_seconds, 2),
        restartCpuSeconds=round(start.cpu_seconds, 2),
        restartSeconds=round(time.monotonic() - began, 1),
        stateMiB=round(size / (1 << 20), 1),
        writes=stop.writes + start.writes,
    )


async def lose_region(fleet: MeasuredFleet, workloads: int, samples: Samples) -> dict[str, Any]:
    """The figures of two chapters of `bench.scale` in this fleet."""
    await create_budget(fleet)
    await fleet.settle()
    chapters = FleetChapters(fleet, workloads)
    found = {}
    for name, run in (("region dark", chapters.lose_region), ("recovery", chapters.restore_region)):
        found[name] = await chapters.measure(name, run)
        samples.add(name, **{key: value for key, value in found[name].items() if key != "residentMiB"})
    return found


def size_of(path: Path, *, remove: bool) -> int:
    size = path.stat().st_size
    if remove:
        path.unlink()
    return size


async def start_controllers(fleet: MeasuredFleet) -> None:
    await fleet.fleet.start_plane()
    await fleet.settle()


if __name__ == "__main__":
    main(sys.argv[1:])
