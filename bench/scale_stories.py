"""Stories about whole fleets of lean clusters, for any size: `python -m bench.scale_stories [--clusters 1000] [--workloads 1000]`.

Plays all of them on the virtual clock and prints JSON: virtual seconds, moves, CPU seconds and memory of each. With `--write`
it writes them to `stories/scale` instead, in the small size that `make test` plays.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from bench.embedded_fleet import resident_mebibytes
from bench.processes import collect_garbage_as_servers_do, machine

from trimtab.clock import run_virtually
from trimtab.stories.runner import run_in_memory
from trimtab.stories.story import parse_story

FOLDER = Path(__file__).parent.parent / "stories" / "scale"
REGIONS = 5
REPLICAS = 10
USED = 3
DARK = "r0"


class FleetSize(NamedTuple):
    clusters: int
    workloads: int

    def names(self, region: str) -> list[str]:
        """The clusters of a region."""
        return [name for name, place in self.regions().items() if place == region]

    def regions(self) -> dict[str, str]:
        return {f"c{number}": f"r{number % REGIONS}" for number in range(self.clusters)}

    @property
    def replicas(self) -> int:
        return self.workloads * REPLICAS


SMALL = FleetSize(clusters=10, workloads=6)


def fleet_of(size: FleetSize) -> dict[str, Any]:
    """Clusters in five regions, each large enough for its share of the replicas three times over."""
    members = [
        {"name": name, "nodes": 2, "cpu": 64, "pods": 5000, "region": region} for name, region in size.regions().items()
    ]
    return {"lean": True, "pace": "typical", "heartbeat": 0, "members": members}


def objects_of(size: FleetSize) -> list[dict[str, Any]]:
    """One policy that places every workload in three regions, a budget, and the workloads."""
    placement = {
        "spreadConstraints": [
            {"spreadByField": "region", "minGroups": USED, "maxGroups": USED},
            {"spreadByField": "cluster", "minGroups": USED, "maxGroups": USED},
        ],
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        },
    }
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "all"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": placement},
    }
    budget = {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "DisruptionBudget",
        "metadata": {"name": "careful"},
        "spec": {"target": "Workloads", "selector": {}, "maxUnavailable": 1},
    }
    return [policy, budget, *(deployment(f"web-{number}") for number in range(size.workloads))]


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "nginx:1.27", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template},
    }


def ready_replicas(place: str = "*") -> str:
    return f"sum({place}:Deployment/default/web-*.status.readyReplicas)"


def story_of(
    size: FleetSize, name: str, description: str, steps: list[dict[str, Any]], expect: list[Any]
) -> dict[str, Any]:
    """A story that begins with all workloads running."""
    begin = [{"apply": objects_of(size)}, {"when": f"{ready_replicas()} == {size.replicas}", "timeout": "10m"}]
    return {
        "name": name,
        "description": description,
        "every": "1s" if size.clusters <= SMALL.clusters else "10s",  # a check reads every member
        "settings": {"eviction-rate": 1000.0},
        "fleet": fleet_of(size),
        "timeline": [*begin, *steps],
        "expect": expect,
    }


def region_goes_dark(size: FleetSize) -> dict[str, Any]:
    lost = size.names(DARK)
    steps = [{"name": "dark", "fail": {"cluster": lost}}]
    elsewhere = " + ".join(ready_replicas(name) for name in size.regions() if name not in lost)
    return story_of(
        size,
        "A region goes dark, and everything that ran there runs in other regions",
        "All clusters of one of five regions fail at once. What ran there is replaced after the evacuation delay.",
        steps,
        [
            {"that": f"Move/default/*.status.outcome == Done and {elsewhere} == {size.replicas}", "within": "15m"},
            {"that": "Move/default/*.spec.cause == ClusterFailover", "within": "15m"},
        ],
    )


def region_returns(size: FleetSize) -> dict[str, Any]:
    lost = size.names(DARK)
    steps: list[dict[str, Any]] = [
        {"name": "dark", "fail": {"cluster": lost}},
        {"wait": "10m"},
        {"name": "light", "recover": {"cluster": lost}},
        {"wait": "5m"},
    ]
    return story_of(
        size,
        "A region returns, and what was replaced meanwhile is removed there",
        "The clusters come back after ten minutes with the replicas that they had; their Works are gone, so they are removed.",
        steps,
        [
            {"that": f"{ready_replicas()} == {size.replicas} and ready(Cluster/*) == {size.clusters}", "within": "10m"},
            {"never": f"{ready_replicas()} < {size.replicas}", "from": "light"},
        ],
    )


def rolling_drain(size: FleetSize) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    for name in size.regions():
        steps += [
            {"name": f"drain-{name}", "taint": {"cluster": name, "key": "cluster.karmada.io/unschedulable"}},
            {
                "patch": {
                    "object": f"Cluster/{name}",
                    "body": {"metadata": {"annotations": {"trimtab.dev/drain": "now"}}},
                }
            },
            {"when": f"count(Work/karmada-es-{name}/web-*.metadata.name) == 0", "timeout": "30m"},
            {
                "patch": {
                    "object": f"Cluster/{name}",
                    "body": {"metadata": {"annotations": {"trimtab.dev/drain": None}}},
                }
            },
            {"untaint": {"cluster": name, "key": "cluster.karmada.io/unschedulable"}},
        ]
    return story_of(
        size,
        "All clusters are drained one after the other, and no replica is missing",
        "Each cluster is closed, emptied with the replacement first, and opened again.",
        steps,
        [
            {"never": f"{ready_replicas()} < {size.replicas}", "from": f"drain-{next(iter(size.regions()))}"},
            {"that": "Move/default/*.spec.cause == Drain and Move/default/*.status.outcome == Done", "within": "10m"},
            {"that": f"{ready_replicas()} == {size.replicas}", "within": "10m"},
        ],
    )


def rebalance_of_everything(size: FleetSize) -> dict[str, Any]:
    closed = {"cluster": size.names(DARK), "key": "closed"}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default"}
    rebalancer = {
        "apiVersion": "apps.karmada.io/v1alpha1",
        "kind": "WorkloadRebalancer",
        "metadata": {"name": "all"},
        "spec": {"workloads": [{**reference, "name": f"web-{number}"} for number in range(size.workloads)]},
    }
    story = story_of(
        size,
        "All workloads are rebalanced onto a region that was closed, within their budgets",
        "A region opens after everything was placed without it; one rebalancer decides all placements anew.",
        [{"untaint": closed}, {"wait": "30s"}, {"name": "again", "apply": [rebalancer]}],
        [
            {"that": "exists(WorkloadRebalancer/all.status.finishTime)", "within": "30m"},
            {"that": f"{ready_replicas()} == {size.replicas}", "within": "30m"},
            {"that": f"{' + '.join(map(ready_replicas, size.names(DARK)))} > 0", "within": "30m"},
            {"never": f"{ready_replicas()} < {size.replicas - size.workloads}", "from": "again"},
        ],
    )
    story["timeline"] = [{"taint": closed}, *story["timeline"]]
    return story


STORIES: dict[str, Callable[[FleetSize], dict[str, Any]]] = {
    "a-region-goes-dark": region_goes_dark,
    "a-region-returns": region_returns,
    "a-rolling-drain": rolling_drain,
    "a-rebalance-of-everything": rebalance_of_everything,
}


def text_of(name: str, size: FleetSize) -> str:
    head = "# Written by `python -m bench.scale_stories --write`, which plays it in any size.\n"
    return head + yaml.safe_dump(STORIES[name](size), sort_keys=False, width=120, default_flow_style=None)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--workloads", type=int, default=100)
    parser.add_argument("--only", choices=[*STORIES], nargs="+", default=[*STORIES])
    parser.add_argument("--write", action="store_true", help="write the small stories to stories/scale")
    given = parser.parse_args(arguments)
    if given.write:
        for name in STORIES:
            (FOLDER / f"{name}.yaml").write_text(text_of(name, SMALL))
        return
    collect_garbage_as_servers_do()
    size = FleetSize(given.clusters, given.workloads)
    found = {name: play(name, size) for name in given.only}
    print(json.dumps({"part": "scale stories", "machine": machine(), **size._asdict(), "stories": found}, indent=1))


def play(name: str, size: FleetSize) -> dict[str, Any]:
    """The figures of one story; raises if one of its expectations is not met."""
    print(name, file=sys.stderr, flush=True)
    began, cpu = time.monotonic(), time.process_time()
    seconds = run_virtually(run_in_memory(parse_story(STORIES[name](size)), lambda _, __: None))
    return {
        "virtualSeconds": round(seconds),
        "cpuSeconds": round(time.process_time() - cpu, 1),
        "seconds": round(time.monotonic() - began, 1),
        "residentMiB": round(resident_mebibytes()),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
