"""Propagation on a real kube-apiserver by several processes: `python -m bench.roles [--push 1 2 4] [--agents]`.

N Deployments of 6 replicas, one in each of six members whose API servers run in a process of their own. First one
process does everything; then one decides and so many push, each for its share of the members (`--roles`); with
`--agents` one decides and every member has an agent. For each set-up: seconds until all bindings are fully applied,
and CPU per workload of every process, of which the largest is what limits the rate on a machine with enough
processors. Prints JSON. Needs `make kube`.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from bench.processes import MeasuredProcess, machine, run_process, trimtab  # noqa: E402 - tests must be importable
from bench.propagate import (  # noqa: E402
    BINDINGS,
    CLIENTS,
    CLUSTERS,
    DEPLOYMENTS,
    NAMESPACE,
    NAMESPACES,
    POLICIES,
    deployment,
    is_true,
    name_of,
    policy,
    wait_until,
)
from kube.fleet import install_crds  # noqa: E402
from kube.rig import RealControlPlane  # noqa: E402

from trimtab.client.kube import KubeClient  # noqa: E402
from trimtab.client.kubeconfig import load  # noqa: E402
from trimtab.members.join import ClusterFacts, join  # noqa: E402

MEMBERS = 6


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--push", type=int, nargs="*", default=[1, 2, 4], help="numbers of pushing processes")
    parser.add_argument("--agents", action="store_true", help="also with an agent in every member")
    given = parser.parse_args(arguments)
    set_ups = [0, *given.push]
    cells = [measure(f"{count} push" if count else "one process", given.workloads, push=count) for count in set_ups]
    if given.agents:
        cells.append(measure("agents", given.workloads, agents=True))
    print(json.dumps({"part": "roles", "machine": machine(), "cells": cells}, indent=1))


def measure(name: str, workloads: int, *, push: int = 0, agents: bool = False) -> dict[str, Any]:
    print(name, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder, contextlib.ExitStack() as stack:
        directory = Path(folder)
        serving = [sys.executable, "-m", "bench.propagate", "--serve-members", str(MEMBERS), "--directory", folder]
        members = stack.enter_context(run_process(serving, directory / "members.log"))
        members.wait_for("members are ready", 120)
        host = stack.enter_context(RealControlPlane("host", directory))
        asyncio.run(join_members(host.kubeconfig, directory, pull=agents))
        processes = {
            role: stack.enter_context(run_process(command, directory / f"{role}.log"))
            for role, command in commands(host.kubeconfig, directory, push=push, agents=agents)
        }
        for process in processes.values():
            process.wait_for("ready", 120)
        return {"name": name, **asyncio.run(run(host.kubeconfig, processes, workloads))}


def commands(host: Path, directory: Path, *, push: int, agents: bool) -> Iterator[tuple[str, list[str]]]:
    """The processes of a set-up, by what they do."""
    controllers = trimtab("controllers", "--kubeconfig", str(host))
    if not push and not agents:
        yield "all", controllers
        return
    yield "decide", [*controllers, "--roles", "decide"]
    for number in range(1, push + 1):
        yield f"push-{number}", [*controllers, "--roles", "push"]
    for name in map(name_of, range(1, MEMBERS + 1)) if agents else ():
        kubeconfigs = ("--host-kubeconfig", str(host), "--kubeconfig", str(directory / name / "kubeconfig"))
        yield f"agent-{name}", trimtab("agent", name, *kubeconfigs, "--context", "trimtab")


async def join_members(host_kubeconfig: Path, directory: Path, *, pull: bool) -> None:
    host = KubeClient(load(host_kubeconfig))
    try:
        await install_crds(host)
        for name in map(name_of, range(1, MEMBERS + 1)):
            credentials = load(directory / name / "kubeconfig", "trimtab")
            member = KubeClient(credentials)
            await join(host, member, name, credentials, ClusterFacts(), mode="Pull" if pull else "Push")
            await member.close()
    finally:
        await host.close()


async def run(host_kubeconfig: Path, processes: dict[str, MeasuredProcess], workloads: int) -> dict[str, Any]:
    host = KubeClient(load(host_kubeconfig))
    try:
        await wait_until(lambda: count_true(host, CLUSTERS, "Ready", MEMBERS), "all clusters are ready")
        await host.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await host.create(POLICIES, policy(MEMBERS))
        await asyncio.sleep(5)
        started, before = time.monotonic(), {role: process.cpu_seconds() for role, process in processes.items()}
        await create_workloads(host, workloads)
        await wait_until(lambda: count_true(host, BINDINGS, "FullyApplied", workloads), "all bindings are applied")
        seconds = time.monotonic() - started
    finally:
        await host.close()
    cpu = {
        role: round((process.cpu_seconds() - before[role]) * 1e3 / workloads, 2) for role, process in processes.items()
    }
    return {
        "workloads": workloads,
        "seconds": round(seconds, 2),
        "cpuMsPerWorkload": cpu,
        "largest": max(cpu.values()),
        "sum": round(sum(cpu.values()), 2),
    }


async def create_workloads(host: KubeClient, workloads: int) -> None:
    async def create(numbers: range) -> None:
        for number in numbers:
            await host.create(DEPLOYMENTS, deployment(number))

    await asyncio.gather(*(create(range(first, workloads, CLIENTS)) for first in range(CLIENTS)))


async def count_true(host: KubeClient, resource: Any, condition: str, expected: int) -> bool:
    items = (await host.list(resource)).items
    return sum(is_true(item, condition) for item in items) == expected


if __name__ == "__main__":
    main(sys.argv[1:])
