"""What is free on the nodes of a cluster, as its status reports it."""

from typing import Any

import msgspec

from trimtab.api.kinds.cluster import FreeNodes
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.controllers.clusters.free_nodes import MAX_ENTRIES, free_nodes

ZONE = "topology.kubernetes.io/zone"


def node(name: str, cpu: str = "8", pods: int = 110, *, ready: str = "True", **spec: Any) -> Node:
    labels = {"kubernetes.io/hostname": name, **spec.pop("labels", {})}
    raw = {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": str(pods)},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return msgspec.convert(raw, Node, strict=False)


def pod(on: str = "", cpu: str = "500m", phase: str = "Running", **status: Any) -> Pod:
    raw = {
        "metadata": {"name": "p"},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": phase, **status},
    }
    return msgspec.convert(raw, Pod, strict=False)


def counts(found: FreeNodes) -> list[tuple[int, Any, Any]]:
    return [(nodes.count, nodes.free.get("cpu"), nodes.free["pods"]) for pool in found.pools for nodes in pool.nodes]


def test_equal_nodes_are_one_entry_and_bound_pods_take_room() -> None:
    nodes = [node(f"n{number}") for number in range(5)]
    assert counts(free_nodes(nodes, [])) == [(5, "8", "110")]
    assert counts(free_nodes(nodes, [pod("n1"), pod("n1", phase="Succeeded")])) == [
        (1, "7500m", "109"),
        (4, "8", "110"),
    ]


def test_full_and_unready_nodes_are_left_out_and_nothing_is_negative() -> None:
    nodes = [node("full", pods=1), node("lost", ready="Unknown"), node("over", cpu="1", pods=3)]
    found = free_nodes(nodes, [pod("full"), pod("over", cpu="5")])
    assert counts(found) == [(1, None, "2")]


def test_pools_differ_in_labels_and_taints_but_not_in_names() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    nodes = [
        node("a", labels={ZONE: "a"}),
        node("b", labels={ZONE: "a"}),
        node("c", labels={ZONE: "c"}, taints=[taint, {"key": "soft", "effect": "PreferNoSchedule"}]),
        node("d", labels={ZONE: "c"}, unschedulable=True),
    ]
    found = free_nodes(nodes, [])
    assert [(pool.labels, [t.key for t in pool.taints], pool.nodes[0].count) for pool in found.pools] == [
        ({ZONE: "a"}, [], 2),
        ({ZONE: "c"}, ["gpu"], 1),
        ({ZONE: "c"}, ["node.kubernetes.io/unschedulable"], 1),
    ]
    assert found.omitted_labels == ("kubernetes.io/hostname",)


def test_pods_that_are_about_to_be_bound_wait_and_those_without_a_node_do_not() -> None:
    stuck = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    found = free_nodes([node("a")], [pod(phase="Pending"), pod(cpu="1000", phase="Pending", conditions=stuck)])
    assert found.waiting == {"cpu": "500m", "pods": "1"}


def test_number_of_entries_is_bounded_and_rounding_only_lowers_what_is_free() -> None:
    nodes = [node(f"n{number:04}", labels={"serial": str(number)}) for number in range(1000)]
    pods = [pod(f"n{number:04}", cpu=f"{number * 7 + 1}m") for number in range(1000)]
    found = free_nodes(nodes, pods)
    entries = counts(found)
    assert len(entries) <= MAX_ENTRIES
    assert sum(count for count, _, _ in entries) == 1000
    assert "serial" in found.omitted_labels
    free = sum(count * int(str(cpu).removesuffix("m")) * (1 if "m" in str(cpu) else 1000) for count, cpu, _ in entries)
    exact = sum(8000 - number * 7 - 1 for number in range(1000))
    assert 0.9 * exact < free <= exact
