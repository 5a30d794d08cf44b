"""Capacity of a cluster from its nodes and pods."""

import msgspec

from trimtab.api.kinds.cluster import ResourceModel
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.native.pod import Pod
from trimtab.controllers.clusters.capacity import node_summary, resource_summary


def node(name: str, cpu: str = "8", ready: str = "True") -> Node:
    raw = {
        "metadata": {"name": name},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return msgspec.convert(raw, Node, strict=False)


def pod(name: str, on: str = "", cpu: str = "500m", phase: str = "Running") -> Pod:
    raw = {
        "metadata": {"name": name},
        "spec": {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": phase},
    }
    return msgspec.convert(raw, Pod, strict=False)


MODELS = msgspec.convert(
    [
        {"grade": g, "ranges": [{"name": "cpu", "min": low, "max": high}, {"name": "memory", "min": "0", "max": "1Ti"}]}
        for g, low, high in ((0, "0", "4"), (1, "4", "8"), (2, "8", "16"))
    ],
    list[ResourceModel],
)


def test_ready_nodes_are_counted() -> None:
    summary = node_summary([node("a"), node("b", ready="False")])
    assert (summary.total_num, summary.ready_num) == (2, 1)


def test_running_pending_and_finished_pods_are_counted_separately() -> None:
    pods = [pod("p", "a"), pod("q"), pod("r", "a", phase="Succeeded")]
    summary = resource_summary([node("a")], pods, ())
    assert summary.allocatable == {"cpu": "8", "memory": "33554432Ki", "pods": "110"}
    assert summary.allocated == {"cpu": "500m", "pods": "1"}
    assert summary.allocating == {"cpu": "500m", "pods": "1"}


def test_node_that_reports_less_than_nothing_takes_nothing_away_from_the_others() -> None:
    assert resource_summary([node("a"), node("b", cpu="-6")], [], ()).allocatable["cpu"] == "8"


def test_nodes_are_graded_by_their_free_resources() -> None:
    summary = resource_summary([node("a"), node("b")], [pod("p", "a", "1")], MODELS)
    assert [(m.grade, m.count) for m in summary.allocatable_modelings] == [(0, 0), (1, 1), (2, 1)]
