"""Prefer nodes with more free cpu and memory."""

from collections.abc import Hashable

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask, Scorer, node_score
from trimtab.decide.pods.fit.resource_arrays import size_array, unassumed_array
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.request import PodRequest


def assumed_requests(request: PodRequest) -> Hashable:
    return request.pod_info.resources.assumed_cpu, request.pod_info.resources.assumed_memory


def least_allocated_scores(request: PodRequest, nodes: Fleet[NodeInfo], feasible: Mask) -> Array:
    total = _hundredths(nodes, "cpu", request.pod_info.resources.assumed_cpu)
    total += _hundredths(nodes, "memory", request.pod_info.resources.assumed_memory)
    total /= nodes.column("scored resources", lambda: _scored_resource_count, np.float64, ignores_load=True)
    return total.astype(np.int64)


def _scored_resource_count(node_info: NodeInfo) -> int:
    return max(1, bool(node_info.allocatable.get("cpu")) + bool(node_info.allocatable.get("memory")))


def _hundredths(nodes: Fleet[NodeInfo], resource: str, amount: int) -> Array:
    """Whole percent of each node that would be free.

    Exact up to seventy terabytes per node: below that a quotient is never rounded up to a whole number.
    """
    left: Array = unassumed_array(nodes, resource) - amount
    np.maximum(left, 0.0, out=left)
    left *= 100.0
    left /= size_array(nodes, resource)
    return np.floor(left, out=left)


@node_score("NodeResourcesFit", reads=assumed_requests, array=least_allocated_scores)
def node_resources_fit(request: PodRequest, nodes: Fleet[NodeInfo]) -> Scorer[NodeInfo]:
    cpu, memory = request.pod_info.resources.assumed_cpu, request.pod_info.resources.assumed_memory

    def grade(node_info: NodeInfo) -> int:
        left = [
            _free_percent(allocatable, used)
            for allocatable, used in (
                (node_info.allocatable.get("cpu", 0), node_info.assumed_cpu + cpu),
                (node_info.allocatable.get("memory", 0), node_info.assumed_memory + memory),
            )
            if allocatable
        ]
        return sum(left) // len(left) if left else 0

    return grade


def _free_percent(allocatable: int, used: int) -> int:
    return 0 if used > allocatable else (allocatable - used) * 100 // allocatable
