"""Pods through the embedded API from create to bound, with the pod scheduler of simulated members, without kubelets."""

import argparse
import asyncio
import json
import time
from typing import Any

from bench.processes import collect_garbage_as_servers_do, machine

from trimtab.api.profile import UPSTREAM
from trimtab.client.client import Resource
from trimtab.clock import WallClock
from trimtab.runtime.cache import Cache, CacheEntry
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.simulate.scheduling.pod_scheduler import PodScheduler
from trimtab.store.store import Store

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
SIZES = (1_000, 5_000)
CREATORS = 16


def node(number: int) -> dict[str, Any]:
    capacity = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"node-{number:05d}", "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:05d}", "labels": labels},
        "status": {
            "allocatable": capacity,
            "capacity": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(number: int) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "500Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number:06d}", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}]},
    }


async def measure(nodes: int, pods: int) -> dict[str, float]:
    server = ApiServer(Store(), ApiServerSettings())
    await server.start()
    client = LocalClient(server)
    for number in range(nodes):
        made = await client.create(NODES, node(number))
        # New nodes are tainted not-ready until the node controller removes the taint; there is none here.
        await client.patch(NODES, "", made["metadata"]["name"], {"spec": {"taints": None}})
    cache = Cache(client)
    binder = PodScheduler(cache, clock=WallClock(), profile=UPSTREAM)
    await binder.start()
    await asyncio.sleep(0.5)
    table = cache.table(PODS)
    bound, waiting = asyncio.Event(), set(range(pods))

    def on_change(_old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is not None and new.raw["spec"].get("nodeName"):
            waiting.discard(int(new.name[1].removeprefix("pod-")))
            if not waiting:
                bound.set()

    table.add_listener(on_change)
    begun, spent = time.perf_counter(), time.process_time()

    async def create(first: int) -> None:
        for number in range(first, pods, CREATORS):
            await client.create(PODS, pod(number))

    await asyncio.gather(*map(create, range(CREATORS)))
    await asyncio.wait_for(bound.wait(), 600)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - spent
    await binder.stop()
    await cache.close()
    await server.stop()
    return {"podsPerSecond": round(pods / seconds, 1), "podsPerCpuSecond": round(pods / cpu, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--pods", type=int, default=2_000)
    arguments = parser.parse_args()
    collect_garbage_as_servers_do()
    found = {str(nodes): asyncio.run(measure(nodes, arguments.pods)) for nodes in arguments.nodes}
    print(json.dumps({**found, "machine": machine()}, indent=2))


if __name__ == "__main__":
    main()
