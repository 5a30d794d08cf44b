"""Binding decisions per CPU-second, beside Karmada's scheduler: `python -m bench.decide_karmada [sizes...]` prints JSON.

Complete decisions with names and replicas; requests are built from decoded bindings:
  cold      from decoded objects: a new fleet, and 2,000 bindings
  warm      the fleet unchanged; uid, replicas, previous result and request differ between bindings
  churning  one cluster in a hundred changes between batches of 200
"""

import gzip
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from bench.karmada_scenarios import BINDINGS, STRATEGIES, scenario
from bench.processes import collect_garbage_as_servers_do, machine

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import UPSTREAM
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import BindingDecision, decide_all
from trimtab.decide.request import placement_request_of
from trimtab.plugins import load

SIZES = (100, 1000, 5000)
BATCH = 200
PASSES = 3
RECORDED = Path(__file__).parent / "data" / "karmada-bench-1000-decisions.tsv.gz"

KARMADA: dict[int, dict[str, float]] = {
    100: {"duplicated": 1017, "static": 765, "dynamic": 804, "aggregated": 1032, "spread-region": 1060},
    1000: {"duplicated": 80, "static": 64, "dynamic": 81, "aggregated": 80, "spread-region": 81},
    5000: {"duplicated": 12.1, "static": 10.2, "dynamic": 12.9, "aggregated": 10.6, "spread-region": 10.4},
}
"""Karmada's decisions per CPU-second, the better of one and two threads, on a similar machine."""


def main(arguments: Sequence[str]) -> None:
    if len(arguments) == 2 and arguments[1] in STRATEGIES:
        print(json.dumps(measure(int(arguments[0]), arguments[1])))
        return
    sizes = [int(argument) for argument in arguments] or SIZES
    print(json.dumps(results(sizes), indent=1))


def results(sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    cells = [cell(size, strategy) for size in sizes for strategy in STRATEGIES]
    return {"bench": "decide karmada", "unit": "decisions per CPU-second", "machine": machine(), "cells": cells}


def cell(size: int, strategy: str) -> dict[str, Any]:
    """One process per cell: caches start cold, and peak memory is that of the cell."""
    command = [sys.executable, "-m", "bench.decide_karmada", str(size), strategy]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    measured: dict[str, Any] = json.loads(done.stdout)
    peer = KARMADA.get(size, {}).get(strategy)
    if peer is not None:
        measured["karmada"] = peer
        measured["ratio"] = {way: round(measured[way] / peer, 1) for way in ("cold", "warm", "churning")}
    return measured


def measure(size: int, strategy: str) -> dict[str, Any]:
    load()
    scenario_data = scenario(size)
    clusters = msgspec.convert(scenario_data["clusters"], list[Cluster], strict=False)
    bindings = bindings_of(next(one for one in scenario_data["strategies"] if one["name"] == strategy))
    del scenario_data
    collect_garbage_as_servers_do()
    before = peak_mebibytes()
    cold, (fleet, decisions) = cpu_seconds_of(partial(decide_cold, clusters, bindings))
    wrong = differences(strategy, decisions) if size == 1000 else []
    del decisions
    variants = [vary_bindings(bindings, number) for number in range(PASSES)]
    warm = min(cpu_seconds_of(partial(decide_in_batches, variants[number], fleet))[0] for number in range(PASSES))
    churn = min(
        cpu_seconds_of(partial(decide_with_churn, fleet, clusters, bindings, number))[0] for number in range(PASSES)
    )
    return {
        "clusters": size,
        "strategy": strategy,
        "cold": round(BINDINGS / cold, 1),
        "warm": round(BINDINGS / warm, 1),
        "churning": round(BINDINGS / churn, 1),
        "peakMiB": round(peak_mebibytes(), 1),
        "grownMiB": round(peak_mebibytes() - before, 1),
        "decisionsUnlikeKarmada": wrong if size == 1000 else None,
    }


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cpu_seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def bindings_of(strategy: dict[str, Any]) -> list[ResourceBinding]:
    return [
        msgspec.convert(
            {
                "metadata": {"namespace": binding["spec"]["resource"]["namespace"], "name": f"app-{number}-deployment"},
                "spec": {**binding["spec"], "placement": strategy["placements"][binding["placement"]]},
            },
            ResourceBinding,
            strict=False,
        )
        for number, binding in enumerate(strategy["bindings"])
    ]


def vary_bindings(bindings: Sequence[ResourceBinding], number: int) -> list[ResourceBinding]:
    """The same policies, but different requests: other uids and unique resource requests."""
    return [with_request(binding, number * BINDINGS + position) for position, binding in enumerate(bindings)]


def with_request(binding: ResourceBinding, number: int) -> ResourceBinding:
    spec = binding.spec
    request = {"cpu": f"{100 + number % 1900}m", "memory": f"{128 + number}Mi"}
    requirements = spec.replica_requirements
    assert requirements is not None
    return binding.but(
        spec=spec.but(
            resource=spec.resource.but(uid=f"{number:08x}-{spec.resource.uid}"),
            replica_requirements=requirements.but(resource_request=request),
        )
    )


def decide_cold(clusters: Sequence[Cluster], bindings: Sequence[ResourceBinding]) -> Any:
    """The fleet and the decisions of the first batch, to compare with recorded ones."""
    fleet = Fleet.of(clusters)
    first, *others = batches(bindings)
    decisions = decide_batch(first, fleet)
    for batch in others:
        decide_batch(batch, fleet)
    return fleet, decisions


def decide_in_batches(bindings: Sequence[ResourceBinding], fleet: Fleet[Cluster]) -> None:
    for batch in batches(bindings):
        decide_batch(batch, fleet)


def decide_batch(bindings: Sequence[ResourceBinding], fleet: Fleet[Cluster]) -> list[BindingDecision]:
    """A batch of decisions with their lists of names and replicas."""
    decisions, _ = decide_all([placement_request_of(binding) for binding in bindings], fleet, UPSTREAM)
    for decision in decisions:
        assert decision.clusters is not None
    return decisions


def batches(bindings: Sequence[ResourceBinding]) -> list[Sequence[ResourceBinding]]:
    return [bindings[start : start + BATCH] for start in range(0, len(bindings), BATCH)]


def decide_with_churn(
    fleet: Fleet[Cluster], clusters: Sequence[Cluster], bindings: Sequence[ResourceBinding], shift: int
) -> None:
    for number, batch in enumerate(batches(bindings)):
        changed = clusters[shift * 10 + number :: 100]
        fleet = fleet.change(with_more_load(cluster, number) for cluster in changed)
        decide_batch(batch, fleet)


def with_more_load(cluster: Cluster, number: int) -> Cluster:
    summary = cluster.status.resource_summary
    assert summary is not None
    allocated = {**summary.allocated, "pods": str(int(summary.allocated["pods"]) + number + 1)}
    return cluster.but(status=cluster.status.but(resource_summary=summary.but(allocated=allocated)))


def differences(strategy: str, decisions: Sequence[BindingDecision]) -> list[str]:
    """The recorded decisions at 1,000 clusters that differ from ours."""
    wrong = []
    with gzip.open(RECORDED, "rt") as lines:
        for line in lines:
            name, number, recorded = line.rstrip("\n").split("\t")
            ours = ",".join(f"{cluster}={replicas}" for cluster, replicas in decisions[int(number)].clusters)
            if name == strategy and ours != recorded:
                wrong.append(f"{name} {number}: recorded {recorded}, ours {ours}")
    return wrong


if __name__ == "__main__":
    main(sys.argv[1:])
