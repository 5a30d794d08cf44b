"""Capacity from nodes: equal to placing pod after pod on every node, never negative, and more when more is free."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import ZONE

from plugins.clusters import cluster, fleet, placement_request
from properties.hypothesis_settings import example_settings
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.controllers.clusters.free_nodes import free_nodes
from trimtab.decide.capacity import estimate_free_replicas
from trimtab.decide.node_capacity import free_amount

TAINT = {"key": "gpu", "effect": "NoSchedule"}
nodes_strategy = st.lists(
    st.fixed_dictionaries(
        {
            "cpu": st.integers(0, 9000),
            "memory": st.integers(0, 64),
            "pods": st.integers(0, 12),
            "zone": st.sampled_from(["a", "b"]),
            "tainted": st.booleans(),
            "cordoned": st.booleans(),
            "ready": st.booleans(),
            "used": st.lists(st.integers(0, 4000), max_size=4),
        }
    ),
    max_size=6,
)
pod_strategy = st.fixed_dictionaries(
    {
        "cpu": st.integers(1, 4000),
        "memory": st.integers(0, 16),
        "zone": st.sampled_from(["", "a", "b"]),
        "tolerates": st.booleans(),
        "not_zone": st.sampled_from(["", "a", "b"]),
    }
)
Spec = dict[str, Any]


def cluster_of(nodes: list[Spec]) -> Cluster:
    made, pods = [], []
    for number, spec in enumerate(nodes):
        size = {"cpu": f"{spec['cpu']}m", "memory": f"{spec['memory']}Gi", "pods": str(spec["pods"])}
        name = f"n{number}"
        raw = {
            "metadata": {"name": name, "labels": {ZONE: spec["zone"], "kubernetes.io/hostname": name}},
            "spec": {"taints": [TAINT] if spec["tainted"] else [], "unschedulable": spec["cordoned"]},
            "status": {"allocatable": size, "conditions": [{"type": "Ready", "status": str(spec["ready"])}]},
        }
        made.append(msgspec.convert(raw, Node, strict=False))
        for cpu in spec["used"]:
            container = {"name": "c", "resources": {"requests": {"cpu": f"{cpu}m"}}}
            body = {"metadata": {"name": "p"}, "spec": {"nodeName": name, "containers": [container]}}
            pods.append(msgspec.convert(body, Pod, strict=False))
    status = {"freeNodes": msgspec.to_builtins(free_nodes(made, pods))}
    return cluster("m1", status=status)


def room(nodes: list[Spec], pod: Spec) -> int:
    rules = [{"key": ZONE, "operator": "NotIn", "values": [pod["not_zone"]]}]
    claim = {
        "nodeSelector": {ZONE: pod["zone"]} if pod["zone"] else {},
        "tolerations": [{"key": "gpu", "operator": "Exists"}] if pod["tolerates"] else [],
        "hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": rules}]} if pod["not_zone"] else None,
    }
    request = {"cpu": f"{pod['cpu']}m", "memory": f"{pod['memory']}Gi"}
    asked = placement_request(replicas=1, replicaRequirements={"resourceRequest": request, "nodeClaim": claim})
    return int(estimate_free_replicas(asked, fleet(cluster_of(nodes)), from_nodes=True)[0])


def place_one_by_one(nodes: list[Spec], pod: Spec) -> int:
    """The reference: put pods on each node until one does not fit."""
    placed = 0
    for node in nodes:
        if not node["ready"] or node["cordoned"] or (node["tainted"] and not pod["tolerates"]):
            continue
        if pod["zone"] not in ("", node["zone"]) or pod["not_zone"] == node["zone"]:
            continue
        cpu, memory, pods = node["cpu"] - sum(node["used"]), node["memory"], node["pods"] - len(node["used"])
        while cpu >= pod["cpu"] and memory >= pod["memory"] and pods >= 1:
            cpu, memory, pods, placed = cpu - pod["cpu"], memory - pod["memory"], pods - 1, placed + 1
    return placed


@example_settings(150)
@given(nodes_strategy, pod_strategy)
def test_room_equals_placing_pods_one_by_one(nodes: list[Spec], pod: Spec) -> None:
    assert room(nodes, pod) == place_one_by_one(nodes, pod)


@example_settings(60)
@given(nodes_strategy, pod_strategy, st.integers(0, 5), st.integers(1, 4000))
def test_more_free_resources_never_mean_less_room(nodes: list[Spec], pod: Spec, which: int, more: int) -> None:
    before = room(nodes, pod)
    assert before >= 0
    assert (free_amount(cluster_of(nodes), "cpu") or 0) >= 0
    if nodes:
        chosen = which % len(nodes)
        grown = [node | {"cpu": node["cpu"] + more} if n == chosen else node for n, node in enumerate(nodes)]
        assert room(grown, pod) >= before
        emptied = [node | {"used": node["used"][1:]} if n == chosen else node for n, node in enumerate(nodes)]
        assert room(emptied, pod) >= before
    assert room([*nodes, *nodes[:1]], pod) >= before
