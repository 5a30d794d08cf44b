"""Calls of Python functions that one propagated workload makes: `python -m bench.workload_calls [--members 3] [--weights 3]`.

User, API server and controllers are one process on the virtual clock, without TLS; members are API servers that only store
what they get. Every Deployment has 6 replicas and goes to at most six members by static weights. The first workloads are not
counted: they fill caches. `--top` prints the functions with most calls, `--dump` writes the profile to a file, `--cpu` measures
CPU time and memory instead of calls. Prints JSON.
"""

import argparse
import asyncio
import cProfile
import gc
import json
import pstats
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.embedded_fleet import CLUSTERS, DEPLOYMENTS, NAMESPACE, POLICIES, deployment, resident_mebibytes
from bench.processes import collect_garbage_as_servers_do
from bench.propagate import is_true

from trimtab.app import ControlPlane
from trimtab.client.client import Client, Resource
from trimtab.clock import LoopClock, run_virtually
from trimtab.server.admission.peer_webhooks import PeerWebhooks
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

USED = 6
WARM_UP = 20
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=50)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--weights", type=int, help="static weights of the policy; as many as members by default")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--top", type=int, default=0)
    parser.add_argument("--dump")
    given = parser.parse_args(arguments)
    collect_garbage_as_servers_do()
    print(json.dumps(run_virtually(measure(given)), indent=1))


class Fleet:
    """A control plane and members that only store objects."""

    def __init__(self, members: int) -> None:
        clock = LoopClock()
        self.host = ApiServer(Store(), ApiServerSettings(clock=clock, plugins=[PeerWebhooks()]))
        self.servers = {f"m{n:04}": ApiServer(Store(), ApiServerSettings(clock=clock)) for n in range(members)}
        clients: dict[str, Client] = {name: LocalClient(server) for name, server in self.servers.items()}
        self.client = LocalClient(self.host)
        self.plane = ControlPlane(LocalClient(self.host), clock=clock, connect=lambda one: clients.get(one.name))

    async def start(self, weights: int) -> None:
        await self.host.start()
        for server in self.servers.values():
            await server.start()
        for name in self.servers:
            spec = {"syncMode": "Push", "apiEndpoint": f"https://{name}"}
            await self.client.create(CLUSTERS, {"metadata": {"name": name}, "spec": spec})
        await self.plane.start()
        while True:
            await asyncio.sleep(1)
            if all(is_true(cluster, "Ready") for cluster in (await self.client.list(CLUSTERS)).items):
                break
        await self.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await self.client.create(POLICIES, policy(max(weights, len(self.servers)), len(self.servers)))
        await asyncio.sleep(5)

    async def propagate(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            await self.client.create(DEPLOYMENTS, deployment(number, 1))
            await asyncio.sleep(0)
        while not self.plane.is_idle:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        await self.plane.stop()
        for server in [*self.servers.values(), self.host]:
            await server.stop()


def policy(weights: int, members: int) -> dict[str, Any]:
    """1:2:3 for three members; else more than nothing for six of them only."""
    shares = [n + 1 if members <= USED else (1000 if n < USED else 1) for n in range(weights)]
    lists = [{"targetCluster": {"clusterNames": [f"m{n:04}"]}, "weight": share} for n, share in enumerate(shares)]
    scheduling = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": lists},
    }
    return {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": "all", "namespace": NAMESPACE},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"replicaScheduling": scheduling},
        },
    }


async def measure(given: argparse.Namespace) -> Mapping[str, Any]:
    fleet = Fleet(given.members)
    await fleet.start(given.weights or given.members)
    await fleet.propagate(0, WARM_UP)
    gc.collect()
    revision, count, resident = fleet.host.store.revision, given.workloads, resident_mebibytes()
    found: dict[str, Any] = {"workloads": count, "members": given.members}
    profile = cProfile.Profile(time.thread_time)
    if not given.cpu:
        profile.enable()
    began = time.process_time()
    await fleet.propagate(WARM_UP, count)
    cpu = time.process_time() - began
    profile.disable()
    found["writes"] = round((fleet.host.store.revision - revision) / count, 2)
    if given.cpu:
        found["cpuMs"] = round(cpu / count * 1e3, 3)
        found["residentKiB"] = round((resident_mebibytes() - resident) * 1024 / count, 1)
    else:
        found |= report(pstats.Stats(profile), count, given)
        if given.dump:
            pstats.Stats(profile).dump_stats(given.dump)
    await fleet.stop()
    return found


def report(stats: Any, count: int, given: argparse.Namespace) -> dict[str, Any]:
    functions = {
        f"{file.rpartition('trimtab/')[2]}:{line}:{name}": times[1] / count
        for (file, line, name), times in stats.stats.items()
    }
    top = sorted(functions.items(), key=lambda item: -item[1])[: given.top]
    return {"calls": round(stats.total_calls / count, 1), "top": {name: round(calls, 1) for name, calls in top}}


if __name__ == "__main__":
    main(sys.argv[1:])
