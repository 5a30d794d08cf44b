"""Failover of many workloads on the virtual clock: `python -m bench.failover [--workloads 1000]`.

All workloads run in one lean cluster; its API server dies. Prints the virtual seconds from the failure until the cluster
gets the taint that evacuates it (the decision), from there until the last replacement is ready, and the CPU time and
writes per workload since the failure, members and probes included. A replica needs 5 to 7.5 seconds to start. Evictions are not slowed down (`eviction-rate`), which
by default are 1.5 per second. Beside them stand the figures of one eviction in a recorded flow of a live Karmada.
Prints JSON; exits with 1 if replicas are missing.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from bench.embedded_fleet import CLUSTERS, MeasuredFleet, WorkloadShape, fleet_plan
from bench.processes import collect_garbage_as_servers_do, machine

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding
from trimtab.clock import run_virtually

MEMBERS = 10
SHAPE = WorkloadShape(replicas=3, clusters=1, group_size=MEMBERS)
LOST = "member0"
CORDON = {"key": "bench", "effect": "NoSchedule"}
SETTINGS = {"eviction-rate": 1000.0}
STEP_SECONDS = 1.0
KARMADA = {"writesPerWorkload": 68, "secondsFromTheDecisionToReady": 0.61}
"""One Deployment in the flow `taint-noexecute`: 29 writes and 39 events on the host until the old Work is gone (0.79 s
after the taint). Its pods are ready as soon as they are created. CPU was not recorded."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=1000)
    given = parser.parse_args(arguments)
    collect_garbage_as_servers_do()
    found = run_virtually(measure(given.workloads))
    print(json.dumps({"part": "failover", "machine": machine(), **found, "karmada": KARMADA}, indent=1))
    if found["readyReplicas"] < given.workloads * SHAPE.replicas:
        sys.exit(f"only {found['readyReplicas']} of {given.workloads * SHAPE.replicas} replicas are ready")


async def measure(workloads: int) -> dict[str, Any]:
    plan = fleet_plan(MEMBERS, cpu="6400", shape=SHAPE, pace="typical")
    fleet = await MeasuredFleet.start(MEMBERS, plan, SHAPE, SETTINGS)
    await fleet.prepare()
    others = [member.name for member in fleet.fleet.world if member.name != LOST]
    await set_taints(fleet, others, [CORDON])
    await fleet.create(workloads)
    await set_taints(fleet, others, None)
    await fleet.settle()
    failover = Failover(fleet)
    placed = failover.placed_in_lost_cluster()
    loop = asyncio.get_running_loop()
    fleet.fleet.world[LOST].stop_api()
    killed_at, cpu, revision = loop.time(), time.process_time(), fleet.fleet.host.store.revision
    await failover.wait_until(failover.is_decided)
    decided_at = loop.time()
    await failover.wait_until(lambda: not failover.placed_in_lost_cluster())
    await fleet.settle()
    cpu = time.process_time() - cpu
    found = {
        "workloads": workloads,
        "inTheLostCluster": placed,
        "secondsToTheDecision": round(decided_at - killed_at),
        "secondsFromTheDecisionToReady": round(loop.time() - decided_at),
        "cpuMsPerWorkload": round(cpu / placed * 1e3, 2),
        "writesPerWorkload": round((fleet.fleet.host.store.revision - revision) / placed, 1),
        "readyReplicas": await fleet.ready_replicas(),
    }
    await fleet.stop()
    return found


async def set_taints(fleet: MeasuredFleet, names: Sequence[str], taints: list[dict[str, str]] | None) -> None:
    for name in names:
        await fleet.client.patch(CLUSTERS, "", name, {"spec": {"taints": taints}})
    await fleet.settle()


class Failover:
    """What becomes of the workloads of the lost cluster."""

    def __init__(self, fleet: MeasuredFleet) -> None:
        assert fleet.fleet.plane is not None
        self._cache = fleet.fleet.plane.cache

    def placed_in_lost_cluster(self) -> int:
        entries = self._cache.table_of(ResourceBinding).entries.values()
        bindings = (cast("ResourceBinding", entry.typed) for entry in entries)
        return sum(any(target.name == LOST for target in binding.spec.clusters) for binding in bindings)

    def is_decided(self) -> bool:
        lost = cast("Cluster", self._cache.table_of(Cluster).entries["", LOST].typed)
        return any(taint.effect == "NoExecute" for taint in lost.spec.taints)

    async def wait_until(self, is_met: Callable[[], bool]) -> None:
        while not is_met():  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(STEP_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
