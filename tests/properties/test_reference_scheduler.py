"""The array-based scheduler decides like the reference scheduler."""

import random
from typing import Any

import msgspec
import pytest

from properties.reference_scheduler import schedule
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import UPSTREAM
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import decide
from trimtab.decide.request import placement_request_of
from trimtab.plugins import load

load()
AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
WEIGHTED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}


def cluster(rng: random.Random, number: int) -> Cluster:
    pods = rng.choice([0, 3, 3, 10, 10, 40, 110])
    body: dict[str, Any] = {
        "metadata": {"name": f"m{number:02}", "labels": {"tier": rng.choice("abc")}},
        "spec": {"region": f"r{rng.randrange(7)}", "provider": rng.choice(["", "p", "q"])},
        "status": {"apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]}]},
    }
    if rng.random() < 0.95:
        body["status"]["resourceSummary"] = {
            "allocatable": {"pods": str(pods), "cpu": str(rng.choice([2, 8, 32])), "memory": "64Gi"},
            "allocated": {"cpu": f"{rng.choice([0, 300, 1900])}m", "pods": str(rng.randrange(3))},
        }
    if rng.random() < 0.1:
        body["spec"]["taints"] = [{"key": "k", "effect": rng.choice(["NoSchedule", "PreferNoSchedule"])}]
    return msgspec.convert(body, Cluster, strict=False)


def placement(rng: random.Random, names: list[str]) -> dict[str, Any]:
    weights = [
        {"targetCluster": {"labelSelector": {"matchLabels": {"tier": tier}}}, "weight": rng.randint(1, 4)}
        for tier in rng.sample("abc", 2)
    ]
    scheduling: Any = rng.choice(
        [
            {"replicaSchedulingType": "Duplicated"},
            AGGREGATED,
            AGGREGATED,
            {**WEIGHTED, "weightPreference": {"dynamicWeight": "AvailableReplicas"}},
            {**WEIGHTED, "weightPreference": {"staticWeightList": weights}},
            WEIGHTED,
        ]
    )
    result: dict[str, Any] = {"replicaScheduling": scheduling}
    variant = rng.randrange(4)
    if variant == 1:
        result["clusterAffinity"] = {"exclude": rng.sample(names, len(names) // 3)}
    if variant == 2:
        result["clusterAffinity"] = {"labelSelector": {"matchLabels": {"tier": "a"}}}
    if rng.random() < 0.5:
        low = rng.randint(1, 5)
        constraints = [{"spreadByField": "cluster", "minGroups": low, "maxGroups": low + rng.randint(0, 8)}]
        if rng.random() < 0.6:
            fewest = rng.randint(1, 4)
            constraints.append(
                {"spreadByField": "region", "minGroups": fewest, "maxGroups": fewest + rng.randint(0, 3)}
            )
        result["spreadConstraints"] = constraints
    return result


def binding(rng: random.Random, names: list[str]) -> ResourceBinding:
    spec: dict[str, Any] = {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": f"{rng.getrandbits(64):x}"},
        "placement": placement(rng, names),
        "replicas": rng.choice([0, 1, 2, 5, 9, 30, 100, 400]),
        "replicaRequirements": {"resourceRequest": {"cpu": rng.choice(["100m", "250m", "1"]), "memory": "1Gi"}},
    }
    if rng.random() < 0.5:
        chosen = rng.sample(names, min(len(names), rng.randint(1, 6)))
        spec["clusters"] = [{"name": name, "replicas": rng.randint(0, 9)} for name in chosen]
    status = {}
    if rng.random() < 0.2:
        spec["rescheduleTriggeredAt"] = "2030-01-01T00:00:01Z"
        status = {"lastScheduledTime": "2030-01-01T00:00:00Z"}
    return msgspec.convert(
        {"metadata": {"namespace": "n", "name": "x"}, "spec": spec, "status": status}, ResourceBinding
    )


@pytest.mark.parametrize("seed", range(40))
def test_arrays_decide_like_the_reference_scheduler(seed: int) -> None:
    rng = random.Random(seed)
    fleet = Fleet.of([cluster(rng, number) for number in range(rng.choice([3, 12, 30, 60]))])
    for _ in range(12):
        request = placement_request_of(binding(rng, list(fleet.names)))
        decision = decide(request, fleet, UPSTREAM)
        expected = schedule(request, fleet)
        if isinstance(expected, dict):
            assert dict(decision.clusters) == expected
        elif expected == "no fit":
            assert decision.condition[1] == "NoClusterFit"
        else:
            assert decision.condition[2].endswith(expected)
