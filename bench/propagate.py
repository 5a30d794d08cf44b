"""Propagation of Deployments to members: `python -m bench.propagate [--workloads 200 1000] [--members 3] [--weights 6] [--long]`.

The reference workload: N Deployments of 6 replicas, one policy that exists before them, static weights 1:2:3, three
members (further ones have weight 1, up to `--weights`), no pods. `trimtab up` is one process, all members another, the client
a third; all use TLS, and the store of the control plane syncs every commit. Prints JSON.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.processes import CpuSpeedProbe, MeasuredProcess, machine, run_process, trimtab

from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import load
from trimtab.errors import NotFound
from trimtab.members.join import ClusterFacts, join
from trimtab.server.daemon import Daemon

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
POLICIES = Resource("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy")
CLUSTERS = Resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", namespaced=False)
BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")
NAMESPACE = "bench"
CLIENTS = 4
TIMEOUT_SECONDS = 900.0

KARMADA: dict[int, dict[str, float]] = {
    200: {
        "seconds": 49.3,
        "cpuMsPerWorkload": 424,
        "requestsPerWorkload": 48.5,
        "residentMiB": 2451,
        "deleteSeconds": 33.8,
    },
    1000: {
        "seconds": 210.5,
        "cpuMsPerWorkload": 370,
        "requestsPerWorkload": 44.8,
        "residentMiB": 2552,
        "deleteSeconds": 108,
    },
}
"""A live Karmada with raised limits on a similar machine; requests exclude watches and include events."""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--members", type=int, nargs="+", default=[3])
    parser.add_argument("--weights", type=int, help="members that the policy lists; all by default")
    parser.add_argument("--long", action="store_true", help="also 10,000 workloads, and 20 and 100 members")
    parser.add_argument("--serve-members", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve_members:
        asyncio.run(serve_members(given.serve_members, given.directory))
        return
    cells = [(count, members) for members in given.members for count in given.workloads]
    if given.long:
        cells += [(10_000, 3), (1000, 20), (1000, 100)]
    print(
        json.dumps(
            {"part": "propagate", "machine": machine(), "cells": [measure_cell(*one, given.weights) for one in cells]},
            indent=1,
        )
    )


def measure_cell(workloads: int, members: int, weights: int | None) -> dict[str, Any]:
    """Measure one cell; prints its parameters first, because long ones take minutes."""
    listed = min(weights or members, members)
    print(f"{workloads} workloads, {members} members, {listed} in the policy", file=sys.stderr, flush=True)
    return cell(workloads, members, listed)


async def serve_members(count: int, directory: Path) -> None:
    """The API servers of all members, in a process separate from the control plane."""
    daemons = [Daemon(directory / name_of(number), "127.0.0.1", 0) for number in range(1, count + 1)]
    for daemon in daemons:
        await daemon.start()
    print("members are ready", flush=True)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    for daemon in daemons:
        await daemon.stop()


def name_of(number: int) -> str:
    return f"member{number}"


def cell(workloads: int, members: int, weights: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        here = Path(folder)
        serving = [sys.executable, "-m", "bench.propagate", "--serve-members", str(members), "--directory", folder]
        with run_process(serving, here / "members.log") as far:
            far.wait_for("members are ready", 60 + 2 * members)
            with run_process(
                trimtab("up", "--no-fleet", "--port", "0", "--data-dir", f"{folder}/host"), here / "up.log"
            ) as up:
                up.wait_for("KUBECONFIG")
                return asyncio.run(PropagationRun(here, up, far, workloads, members, weights).measure())


class PropagationRun:
    """One measurement from the client's point of view."""

    def __init__(
        self,
        directory: Path,
        up: MeasuredProcess,
        members_process: MeasuredProcess,
        workloads: int,
        members: int,
        weights: int,
    ) -> None:
        self._directory, self._up, self._members_process = directory, up, members_process
        self._workloads, self._members, self._weights = workloads, members, weights
        self._host = KubeClient(load(directory / "host" / "kubeconfig"))

    async def measure(self) -> dict[str, Any]:
        try:
            await self._join_all()
            await self._host.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            await self._host.create(POLICIES, policy(self._weights))
            await asyncio.sleep(1)
            found = await self._measure_propagation()
            found["deleteSeconds"] = round(await self._measure_deletion(), 1)
        finally:
            await self._host.close()
        peer = KARMADA.get(self._workloads) if self._members == 3 else None
        return found | ({"karmada": peer} if peer else {})

    async def _join_all(self) -> None:
        names = [name_of(number) for number in range(1, self._members + 1)]
        await asyncio.gather(*(self._join(names[first::CLIENTS]) for first in range(CLIENTS)))
        await wait_until(self._all_ready, "all clusters are ready")

    async def _join(self, names: list[str]) -> None:
        for name in names:
            credentials = load(self._directory / name / "kubeconfig", "trimtab")
            member = KubeClient(credentials)
            try:
                await join(self._host, member, name, credentials, ClusterFacts())
            finally:
                await member.close()

    async def _all_ready(self) -> bool:
        listing = await self._host.list(CLUSTERS)
        return sum(is_true(cluster, "Ready") for cluster in listing.items) == self._members

    async def _measure_propagation(self) -> dict[str, Any]:
        before, cpu, far = await self._revision(), self._up.cpu_seconds(), self._members_process.cpu_seconds()
        start = time.perf_counter()
        applied = asyncio.create_task(self._all_applied(str(before)))
        pace = CpuSpeedProbe()
        await asyncio.gather(*(self._create(range(first, self._workloads, CLIENTS)) for first in range(CLIENTS)))
        created = time.perf_counter() - start
        latencies = await asyncio.wait_for(applied, TIMEOUT_SECONDS)
        seconds = time.perf_counter() - start
        cpu, far = self._up.cpu_seconds() - cpu, self._members_process.cpu_seconds() - far
        loops = pace.stop()
        await asyncio.sleep(2)
        events = await self._host.list(EVENTS, NAMESPACE)
        event_count = sum(event.get("count") or 1 for event in events.items)
        return {
            "workloads": self._workloads,
            "members": self._members,
            "weights": self._weights,
            "seconds": round(seconds, 2),
            "workloadsPerSecond": round(self._workloads / seconds, 1),
            "createdAfterSeconds": round(created, 2),
            "latencySeconds": {"p50": percentile(latencies, 50), "p99": percentile(latencies, 99)},
            "cpuMsPerWorkload": round(cpu / self._workloads * 1e3, 2),
            "loopMs": loops,
            "membersCpuMsPerWorkload": round(far / self._workloads * 1e3, 2),
            "writesPerWorkload": round((await self._revision() - before - event_count) / self._workloads, 2),
            "eventsPerWorkload": round(event_count / self._workloads, 2),
            "residentMiB": self._up.mebibytes(),
        }

    async def _revision(self) -> int:
        """The store's revision; every write increments it."""
        return int((await self._host.list(NAMESPACES)).revision)

    async def _create(self, numbers: range) -> None:
        for number in numbers:
            await self._host.create(DEPLOYMENTS, deployment(number))
            self._created_at[f"web-{number}-deployment"] = time.perf_counter()

    _created_at: dict[str, float]

    async def _all_applied(self, revision: str) -> list[float]:
        """The latency of each workload, once all are applied everywhere."""
        self._created_at = {}
        latencies: dict[str, float] = {}
        while True:
            async for changes in self._host.watch(BINDINGS, NAMESPACE, revision=revision):
                for change in changes:
                    metadata = change.object["metadata"]
                    revision, name = metadata["resourceVersion"], metadata.get("name", "")
                    if name and name not in latencies and is_true(change.object, "FullyApplied"):
                        latencies[name] = time.perf_counter() - self._created_at.get(name, time.perf_counter())
                if len(latencies) == self._workloads:
                    return list(latencies.values())

    async def _measure_deletion(self) -> float:
        start = time.perf_counter()
        await self._host.delete(NAMESPACES, "", NAMESPACE)
        await wait_until(self._is_gone, "the namespace is gone")
        return time.perf_counter() - start

    async def _is_gone(self) -> bool:
        try:
            await self._host.get(NAMESPACES, "", NAMESPACE)
        except NotFound:
            return True
        return False


def percentile(values: list[float], percent: int) -> float:
    return round(sorted(values)[min(len(values) - 1, len(values) * percent // 100)], 2)


async def wait_until(is_met: Callable[[], Awaitable[bool]], what: str) -> None:
    start = time.perf_counter()
    while not await is_met():
        if time.perf_counter() - start > TIMEOUT_SECONDS:
            raise TimeoutError(f"timed out waiting until {what}")
        await asyncio.sleep(0.1)


def is_true(thing: dict[str, Any], condition: str) -> bool:
    conditions = (thing.get("status") or {}).get("conditions") or []
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


def deployment(number: int) -> dict[str, Any]:
    labels = {"app": f"web-{number}"}
    container = {"name": "main", "image": "nginx:1.27", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"web-{number}", "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 6,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def policy(members: int) -> dict[str, Any]:
    """Static weights 1:2:3; where more members are listed, six of them get one replica each."""
    weights = [
        {"targetCluster": {"clusterNames": [name_of(number)]}, "weight": number if members <= 3 else 1}
        for number in range(1, members + 1)
    ]
    scheduling = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": weights},
    }
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "all", "namespace": NAMESPACE},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"replicaScheduling": scheduling},
        },
    }


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main(sys.argv[1:])
