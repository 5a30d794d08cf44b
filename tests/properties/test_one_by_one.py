"""Arrays and shortcuts decide as the rules do when they are followed step by step."""

import random
from typing import Any

import msgspec
import pytest

from properties.one_by_one import schedule
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.profile import UPSTREAM
from trimtab.decide.fleet import Fleet
from trimtab.decide.karmada import decide
from trimtab.decide.request import ask_of
from trimtab.plugins import load

load()
AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
WEIGHTED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}


def cluster(dice: random.Random, number: int) -> Cluster:
    pods = dice.choice([0, 3, 3, 10, 10, 40, 110])
    body: dict[str, Any] = {
        "metadata": {"name": f"m{number:02}", "labels": {"tier": dice.choice("abc")}},
        "spec": {"region": f"r{dice.randrange(7)}", "provider": dice.choice(["", "p", "q"])},
        "status": {"apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]}]},
    }
    if dice.random() < 0.95:
        body["status"]["resourceSummary"] = {
            "allocatable": {"pods": str(pods), "cpu": str(dice.choice([2, 8, 32])), "memory": "64Gi"},
            "allocated": {"cpu": f"{dice.choice([0, 300, 1900])}m", "pods": str(dice.randrange(3))},
        }
    if dice.random() < 0.1:
        body["spec"]["taints"] = [{"key": "k", "effect": dice.choice(["NoSchedule", "PreferNoSchedule"])}]
    return msgspec.convert(body, Cluster, strict=False)


def placement(dice: random.Random, names: list[str]) -> dict[str, Any]:
    weights = [
        {"targetCluster": {"labelSelector": {"matchLabels": {"tier": tier}}}, "weight": dice.randint(1, 4)}
        for tier in dice.sample("abc", 2)
    ]
    scheduling: Any = dice.choice(
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
    way = dice.randrange(4)
    if way == 1:
        result["clusterAffinity"] = {"exclude": dice.sample(names, len(names) // 3)}
    if way == 2:
        result["clusterAffinity"] = {"labelSelector": {"matchLabels": {"tier": "a"}}}
    if dice.random() < 0.5:
        low = dice.randint(1, 5)
        constraints = [{"spreadByField": "cluster", "minGroups": low, "maxGroups": low + dice.randint(0, 8)}]
        if dice.random() < 0.6:
            fewest = dice.randint(1, 4)
            constraints.append(
                {"spreadByField": "region", "minGroups": fewest, "maxGroups": fewest + dice.randint(0, 3)}
            )
        result["spreadConstraints"] = constraints
    return result


def binding(dice: random.Random, names: list[str]) -> ResourceBinding:
    spec: dict[str, Any] = {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": f"{dice.getrandbits(64):x}"},
        "placement": placement(dice, names),
        "replicas": dice.choice([0, 1, 2, 5, 9, 30, 100, 400]),
        "replicaRequirements": {"resourceRequest": {"cpu": dice.choice(["100m", "250m", "1"]), "memory": "1Gi"}},
    }
    if dice.random() < 0.5:
        chosen = dice.sample(names, min(len(names), dice.randint(1, 6)))
        spec["clusters"] = [{"name": name, "replicas": dice.randint(0, 9)} for name in chosen]
    status = {}
    if dice.random() < 0.2:
        spec["rescheduleTriggeredAt"] = "2030-01-01T00:00:01Z"
        status = {"lastScheduledTime": "2030-01-01T00:00:00Z"}
    return msgspec.convert(
        {"metadata": {"namespace": "n", "name": "x"}, "spec": spec, "status": status}, ResourceBinding
    )


@pytest.mark.parametrize("seed", range(40))
def test_arrays_decide_as_the_rules_do_step_by_step(seed: int) -> None:
    dice = random.Random(seed)
    fleet = Fleet.of([cluster(dice, number) for number in range(dice.choice([3, 12, 30, 60]))])
    for _ in range(12):
        ask = ask_of(binding(dice, list(fleet.names)))
        decision = decide(ask, fleet, UPSTREAM)
        expected = schedule(ask, fleet)
        if isinstance(expected, dict):
            assert dict(decision.clusters) == expected
        elif expected == "no fit":
            assert decision.condition[1] == "NoClusterFit"
        else:
            assert decision.condition[2].endswith(expected)
