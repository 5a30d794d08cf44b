"""Cost of simulated members: start, pods, and an idle hour, as JSON.

python bench/simulate.py [--members 100] [--nodes 50] [--pods 5000] [--hours 1]
"""

import argparse
import asyncio
import json
from pathlib import Path
from time import process_time
from typing import Any

from trimtab.client.client import Resource
from trimtab.clock import run_virtually
from trimtab.simulate.fleet import uniform_fleet
from trimtab.simulate.member import SimulatedMember
from trimtab.simulate.world import World

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


def resident_megabytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 // 1_000_000


def deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "measured"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "measured", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def measure(members: int, nodes: int, pods: int, hours: float) -> dict[str, Any]:
    found: dict[str, Any] = {"members": members, "nodesPerMember": nodes}
    began = process_time()
    world = World(uniform_fleet(members, nodes))
    await world.start()
    found["start"] = {"cpuSeconds": round(process_time() - began, 2), "rssMegabytes": resident_megabytes()}
    began, written = process_time(), sum(member.server.store.revision for member in world)
    for member in world:
        await member.client.create(DEPLOYMENTS, deployment(pods // members))
    await asyncio.sleep(10)
    ready = sum(pod.is_ready for member in world if isinstance(member, SimulatedMember) for pod in member.pods)
    writes = sum(member.server.store.revision for member in world) - written
    found["pods"] = {
        "ready": ready,
        "cpuSeconds": round(process_time() - began, 2),
        "writes": writes,
        "rssMegabytes": resident_megabytes(),
    }
    began, written = process_time(), sum(member.server.store.revision for member in world)
    await asyncio.sleep(hours * 3600)
    writes = sum(member.server.store.revision for member in world) - written
    found["idle"] = {
        "virtualHours": hours,
        "heartbeatSeconds": world.fleet.heartbeat_seconds,
        "cpuSecondsPerHour": round((process_time() - began) / hours, 2),
        "writesPerHour": round(writes / hours),
        "rssMegabytes": resident_megabytes(),
    }
    await world.stop()
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--members", type=int, default=100)
    options.add_argument("--nodes", type=int, default=50)
    options.add_argument("--pods", type=int, default=5000)
    options.add_argument("--hours", type=float, default=1.0)
    chosen = options.parse_args()
    print(json.dumps(run_virtually(measure(chosen.members, chosen.nodes, chosen.pods, chosen.hours)), indent=2))


if __name__ == "__main__":
    main()
