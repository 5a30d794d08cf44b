"""A very large fleet in one process: `python -m bench.large_fleet [--clusters 1000] [--workloads 100000] [--samples FILE]`.

Lean clusters, each workload with ten replicas in three of them, created in batches on the virtual clock. After every batch
one line of JSON is appended to the file of samples: workloads, CPU and wall seconds so far, memory. `--seconds` ends the
creation early, so that a busy machine gives figures for a smaller fleet. Then the fleet is left alone for a virtual minute, and the controllers are restarted.
Prints JSON; exits with 1 if replicas are missing or the restart writes.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.embedded_fleet import MeasuredFleet, WorkloadShape, fleet_plan, resident_mebibytes
from bench.processes import machine

from trimtab.cli.main import GC_THRESHOLDS
from trimtab.clock import run_virtually

SHAPE = WorkloadShape(replicas=10, clusters=3, group_size=40)
BATCH = 1000
IDLE_SECONDS = 60.0


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--workloads", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=36_000, help="create no further batch after so many seconds")
    parser.add_argument("--samples", type=Path, default=Path("bench/results/large_fleet.jsonl"))
    given = parser.parse_args(arguments)
    given.samples.parent.mkdir(parents=True, exist_ok=True)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    samples = Samples(given.samples)
    found = run_virtually(measure(given.clusters, given.workloads, given.seconds, samples))
    print(json.dumps({"part": "large fleet", "machine": machine(), **found}, indent=1))
    if found["readyReplicas"] != found["workloads"] * SHAPE.replicas:
        sys.exit(f"{found['readyReplicas']} of {found['workloads'] * SHAPE.replicas} replicas are ready")
    if found["restart"]["writes"]:
        sys.exit(f"the restart wrote {found['restart']['writes']} times")


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


async def measure(clusters: int, workloads: int, seconds: float, samples: Samples) -> dict[str, Any]:
    fleet = await MeasuredFleet.start(clusters, fleet_plan(clusters, cpu="640", shape=SHAPE), SHAPE)
    samples.add("started", clusters=clusters, stepCpuSeconds=round(fleet.steps["start"].cpu_seconds, 1))
    await fleet.prepare()
    samples.add("prepared")
    first = 0
    while first < workloads and samples.seconds < seconds:
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
    idle = await fleet.measure("idle", lambda: asyncio.sleep(IDLE_SECONDS))
    samples.add("idle minute", percentOfACore=round(idle.cpu_seconds / IDLE_SECONDS * 100, 2), writes=idle.writes)
    began = time.monotonic()
    restart = await fleet.measure("restart", lambda: restart_controllers(fleet))
    last = samples.add(
        "restarted",
        restartCpuSeconds=round(restart.cpu_seconds, 1),
        restartSeconds=round(time.monotonic() - began, 1),
        writes=restart.writes,
    )
    await fleet.stop()
    return {
        "clusters": clusters,
        "workloads": first,
        "readyReplicas": ready,
        "idlePercentOfACore": round(idle.cpu_seconds / IDLE_SECONDS * 100, 2),
        "restart": {"cpuSeconds": last["restartCpuSeconds"], "writes": restart.writes},
        "residentMiB": last["residentMiB"],
    }


async def restart_controllers(fleet: MeasuredFleet) -> None:
    await fleet.fleet.stop_plane()
    await fleet.fleet.start_plane()
    await fleet.settle()


if __name__ == "__main__":
    main(sys.argv[1:])
