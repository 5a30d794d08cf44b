"""Events that concern a whole fleet, on the virtual clock: `python -m bench.scale [--clusters 42] [--workloads 120]`.

A fleet of lean clusters in five regions goes through four chapters, one after the other: a region goes dark, it returns,
every cluster of another region is drained one after the other, and all workloads are rebalanced. A DisruptionBudget
allows one unavailable replica per workload. Prints for each chapter the virtual seconds until everything is settled, the
moves, the largest number of replicas at once, CPU and real seconds, the load average and memory. Every chapter is appended to
`--samples` when it ends, so that a run that is stopped leaves figures. Exits with 1 if replicas are missing at the end.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from bench.embedded_fleet import (
    CLUSTERS,
    NAMESPACE,
    SHAPE,
    MeasuredFleet,
    resident_mebibytes,
)
from bench.processes import collect_garbage_as_servers_do, machine

from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.work import ResourceBinding
from trimtab.client.client import Resource
from trimtab.clock import run_virtually
from trimtab.controllers.movement.cluster_departure import USES
from trimtab.simulate.lean.member import LeanMember

BUDGETS = Resource("trimtab.dev", "v1alpha1", "disruptionbudgets", "DisruptionBudget")
REBALANCERS = Resource("apps.karmada.io", "v1alpha1", "workloadrebalancers", "WorkloadRebalancer", namespaced=False)
DARK_REGION, DRAINED_REGION = "region0", "region1"
SAMPLE_SECONDS = 5.0


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=42)
    parser.add_argument("--workloads", type=int, default=120)
    parser.add_argument("--samples", type=Path, default=Path("bench/results/scale.jsonl"))
    given = parser.parse_args(arguments)
    given.samples.parent.mkdir(parents=True, exist_ok=True)
    collect_garbage_as_servers_do()
    found = run_virtually(run_chapters(given.clusters, given.workloads, given.samples))
    print(json.dumps({"part": "scale", "machine": machine(), **found}, indent=1))
    if found["readyReplicas"] < given.workloads * SHAPE.replicas:
        sys.exit(f"only {found['readyReplicas']} of {given.workloads * SHAPE.replicas} replicas are ready")


async def run_chapters(clusters: int, workloads: int, samples: Path) -> dict[str, Any]:
    fleet = await MeasuredFleet.start(clusters)
    await fleet.prepare()
    await create_budget(fleet)
    chapters = FleetChapters(fleet, workloads)
    runs: dict[str, Callable[[], Awaitable[None]]] = {
        "create": lambda: fleet.create(workloads),
        "region dark": chapters.lose_region,
        "recovery": chapters.restore_region,
        "rolling drain": chapters.drain_region,
        "rebalance": chapters.rebalance,
    }
    figures = {}
    for name, run in runs.items():
        figures[name] = await chapters.measure(name, run)
        sample = {"clusters": clusters, "workloads": workloads, "chapter": name, **figures[name]}
        with samples.open("a") as file:
            file.write(json.dumps(sample) + "\n")
    ready = await fleet.ready_replicas()
    await fleet.stop()
    return {"clusters": clusters, "workloads": workloads, "readyReplicas": ready, "chapters": figures}


async def create_budget(fleet: MeasuredFleet) -> None:
    """Allow one unavailable replica per workload."""
    budget = {"target": "Workloads", "selector": {}, "maxUnavailable": 1}
    await fleet.client.create(BUDGETS, new_object(BUDGETS, "careful", budget, NAMESPACE))


def new_object(resource: Resource, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


class FleetChapters:
    """What happens to the fleet."""

    def __init__(self, fleet: MeasuredFleet, workloads: int) -> None:
        self._fleet = fleet
        self._workloads = workloads
        self._most_replicas = 0

    async def measure(self, name: str, run: Callable[[], Awaitable[None]]) -> dict[str, Any]:
        moves, self._most_replicas = self._move_count(), 0
        counting = asyncio.get_running_loop().create_task(self._count_replicas())
        began = time.monotonic()
        cost = await self._fleet.measure(name, run)
        counting.cancel()
        figures = {
            "virtualSeconds": round(cost.virtual_seconds),
            "moves": self._move_count() - moves,
            "mostReplicas": self._most_replicas,
            "writesOnTheHost": cost.writes,
            "cpuSeconds": round(cost.cpu_seconds, 2),
            "seconds": round(time.monotonic() - began, 1),
            "residentMiB": round(resident_mebibytes()),
            "loadAverage": [round(load, 1) for load in os.getloadavg()],
        }
        print(name, json.dumps(figures), file=sys.stderr, flush=True)  # a large fleet takes long until the next one
        return figures

    async def _count_replicas(self) -> None:
        """Note the most replicas that run at once, those in unreachable clusters included."""
        while True:
            members = (member for member in self._fleet.fleet.world if isinstance(member, LeanMember))
            self._most_replicas = max(self._most_replicas, sum(member.workloads.replicas for member in members))
            await asyncio.sleep(SAMPLE_SECONDS)

    def _move_count(self) -> int:
        assert self._fleet.fleet.plane is not None
        return len(self._fleet.fleet.plane.cache.table_of(Move).entries)

    def _names(self, region: str) -> list[str]:
        return [member.name for member in self._fleet.fleet.world if member.plan.region == region]

    async def lose_region(self) -> None:
        for name in self._names(DARK_REGION):
            self._fleet.fleet.world[name].stop_api()
        await self._wait_until_empty(self._names(DARK_REGION))

    async def restore_region(self) -> None:
        for name in self._names(DARK_REGION):
            self._fleet.fleet.world[name].start_api()
        await self._fleet.wait_until(self._fleet.are_clusters_ready)
        await self._fleet.settle()

    async def drain_region(self) -> None:
        """Drain one cluster after the other, and open it again when it is empty."""
        taint = {"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}
        for name in self._names(DRAINED_REGION):
            closed = {"metadata": {"annotations": {"trimtab.dev/drain": "now"}}, "spec": {"taints": [taint]}}
            await self._fleet.client.patch(CLUSTERS, "", name, closed)
            await self._wait_until_empty([name])
            opened = {"metadata": {"annotations": {"trimtab.dev/drain": None}}, "spec": {"taints": None}}
            await self._fleet.client.patch(CLUSTERS, "", name, opened)
        await self._fleet.settle()

    async def rebalance(self) -> None:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NAMESPACE}
        workloads = [{**reference, "name": f"web-{number}"} for number in range(self._workloads)]
        await self._fleet.client.create(REBALANCERS, new_object(REBALANCERS, "all", {"workloads": workloads}))
        await self._fleet.wait_until(self._is_rebalanced)
        await self._fleet.settle()

    async def _is_rebalanced(self) -> bool:
        status = (await self._fleet.client.get(REBALANCERS, "", "all")).get("status") or {}
        return bool(status.get("finishTime"))

    async def _wait_until_empty(self, names: Sequence[str]) -> None:
        """Wait until no workload is placed in these clusters or being evicted from them."""

        async def is_empty() -> bool:
            assert self._fleet.fleet.plane is not None
            bindings = self._fleet.fleet.plane.cache.table_of(ResourceBinding)
            return not any(bindings.count_by_index(USES, name) for name in names)

        await self._fleet.wait_until(is_empty)
        await self._fleet.settle()


if __name__ == "__main__":
    main(sys.argv[1:])
