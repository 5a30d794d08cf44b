"""Capacity from nodes as they are: per node, with selectors, taints and affinity."""

from typing import Any

import numpy as np
import pytest

from plugins.clusters import cluster, fleet, placement_request
from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.capacity import estimate_free_replicas
from trimtab.decide.node_capacity import free_amount
from trimtab.decide.request import FeatureGates

GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def pool(*nodes: tuple[int, str], labels: Any = None, taints: Any = ()) -> dict[str, Any]:
    return {
        "labels": labels or {},
        "taints": list(taints),
        "nodes": [{"count": count, "free": {"cpu": cpu, "memory": "64Gi", "pods": "100"}} for count, cpu in nodes],
    }


def member(*pools: dict[str, Any], name: str = "m1", waiting: Any = None, **summary: Any) -> Cluster:
    free = {"pools": list(pools), "omittedLabels": ["kubernetes.io/hostname"], "waiting": waiting or {}}
    return cluster(name, status={"freeNodes": free, "resourceSummary": {"allocatable": summary}})


def room(of: Cluster, *, from_nodes: bool = True, claim: Any = None, **request: str) -> int:
    needs = {"resourceRequest": request, "nodeClaim": claim}
    asked = placement_request(replicas=1, replicaRequirements=needs)
    return int(estimate_free_replicas(asked, fleet(of), from_nodes=from_nodes)[0])


def test_fit_is_counted_node_by_node() -> None:
    assert room(member(pool((9, "8"))), cpu="3") == 18
    assert room(member(pool((6, "500m"))), cpu="1") == 0
    assert room(member(pool((1, "8"), (2, "2500m"))), cpu="1", memory="1Gi") == 12


def test_number_of_pods_and_unknown_resources_limit_a_node() -> None:
    assert room(member(pool((2, "800")))) == 200
    assert room(member(pool((2, "800"))), **{"nvidia.com/gpu": "1"}) == 0


def test_switch_off_and_missing_report_use_the_summary() -> None:
    reported = member(pool((9, "8")), cpu="6", pods="10")
    assert room(reported, cpu="3", from_nodes=False) == 2
    silent = cluster(status={"resourceSummary": {"allocatable": {"cpu": "6", "pods": "10"}}})
    assert room(silent, cpu="3") == 2


@pytest.mark.parametrize(
    ("claim", "fits"),
    [
        ({}, 2),
        ({"nodeSelector": {"zone": "a"}}, 2),
        ({"nodeSelector": {"zone": "b"}}, 0),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, 5),
        ({"tolerations": [{"key": "gpu", "value": "no"}]}, 2),
        ({"tolerations": [{"operator": "Exists"}], "nodeSelector": {"zone": "b"}}, 3),
        ({"nodeSelector": {"zone": "z"}}, 0),
        ({"nodeSelector": {"kubernetes.io/hostname": "n1"}}, 2),
    ],
)
def test_selectors_and_taints_select_nodes(claim: Any, fits: int) -> None:
    found = member(pool((2, "1"), labels={"zone": "a"}), pool((3, "1"), labels={"zone": "b"}, taints=[GPU]))
    assert room(found, cpu="1", claim=claim) == fits


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}], 2),
        ([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}], 3),
        ([{"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["5"]}]}], 3),
        ([{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, {}], 5),
        ([{}], 0),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], 5),
    ],
)
def test_node_affinity_selects_nodes(terms: Any, fits: int) -> None:
    found = member(pool((2, "1"), labels={"zone": "a", "size": "3"}), pool((3, "1"), labels={"zone": "b", "size": "9"}))
    assert room(found, cpu="1", claim={"hardNodeAffinity": {"nodeSelectorTerms": terms}}) == fits


def test_waiting_pods_take_room_and_it_is_never_negative() -> None:
    assert room(member(pool((3, "4")), waiting={"cpu": "2500m", "pods": "1"}), cpu="1") == 9
    assert room(member(pool((3, "4")), waiting={"cpu": "1000", "pods": "1"}), cpu="1") == 0
    assert free_amount(member(pool((3, "4")), waiting={"cpu": "1000"}), "cpu") == 0
    assert free_amount(cluster(), "cpu") is None


def test_reserved_capacity_is_not_given_away_twice() -> None:
    asked = placement_request(replicas=1, replicaRequirements={"resourceRequest": {"cpu": "3"}})
    reserved = fleet(member(pool((9, "8")))).reserve(np.array([0]), {"cpu": 9000, "pods": 3})
    assert estimate_free_replicas(asked, reserved, from_nodes=True).tolist() == [15]


def test_changed_nodes_of_one_cluster_change_its_column_only() -> None:
    asked = placement_request(replicas=1, replicaRequirements={"resourceRequest": {"cpu": "3"}})
    before = fleet(member(pool((9, "8"))), member(pool((1, "8")), name="m2"))
    assert estimate_free_replicas(asked, before, from_nodes=True).tolist() == [18, 2]
    after = before.change([member(pool((2, "8")), name="m2")])
    assert np.array_equal(estimate_free_replicas(asked, after, from_nodes=True), [18, 4])


def test_component_sets_are_placed_on_nodes() -> None:
    parts = [
        {"name": "head", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "4"}}},
        {
            "name": "worker",
            "replicas": 2,
            "replicaRequirements": {"resourceRequest": {"cpu": "1"}, "nodeClaim": {"nodeSelector": {"zone": "a"}}},
        },
    ]
    asked = placement_request(
        components=parts,
        placement={"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]},
        feature_gates=FeatureGates(components=True),
    )
    found = member(pool((2, "4"), labels={"zone": "a"}), pool((3, "4"), labels={"zone": "b"}))
    assert asked.in_component_sets
    assert estimate_free_replicas(asked, fleet(found), from_nodes=True).tolist() == [3]
