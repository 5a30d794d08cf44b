"""Prefer nodes whose cpu and memory would be used in equal proportions."""

from collections.abc import Hashable

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask, Scorer, node_score
from trimtab.decide.pods.fit.resource_arrays import requested_array, size_array
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.request import PodRequest


def balanced_requests(request: PodRequest) -> Hashable:
    return request.pod_info.resources.requests.get("cpu", 0), request.pod_info.resources.requests.get("memory", 0)


def requests_neither(request: PodRequest) -> bool:
    return balanced_requests(request) == (0, 0)


def balanced_scores(request: PodRequest, nodes: Fleet[NodeInfo], feasible: Mask) -> Array:
    requests = request.pod_info.resources.requests
    change = _balance_array(nodes, requests.get("cpu", 0), requests.get("memory", 0))
    change -= nodes.column(
        "balance",
        lambda: lambda node_info: _balance_score(node_info, 0, 0),
        np.int64,
        bulk=lambda: _balance_array(nodes, 0, 0),
    )
    change += 50
    scores: Array = (change / 2).astype(np.int64)
    scores += 50
    return scores


def _balance_array(nodes: Fleet[NodeInfo], cpu: int, memory: int) -> Array:
    balanced = _share(nodes, "cpu", cpu)
    balanced -= _share(nodes, "memory", memory)
    np.abs(balanced, out=balanced)
    balanced /= 2
    both = nodes.column("balanced resources", lambda: _has_both, bool, ignores_load=True)
    if not both.all():
        balanced[~both] = 0.0
    np.subtract(1, balanced, out=balanced)
    balanced *= 100
    return balanced.astype(np.int64)


def _share(nodes: Fleet[NodeInfo], resource: str, more: int) -> Array:
    share: Array = requested_array(nodes, resource) + more
    share /= size_array(nodes, resource)
    return np.minimum(1.0, share, out=share)


def _has_both(node_info: NodeInfo) -> bool:
    return bool(node_info.allocatable.get("cpu") and node_info.allocatable.get("memory"))


@node_score("NodeResourcesBalancedAllocation", reads=balanced_requests, skips=requests_neither, array=balanced_scores)
def node_resources_balanced(request: PodRequest, nodes: Fleet[NodeInfo]) -> Scorer[NodeInfo]:
    cpu, memory = (
        request.pod_info.resources.requests.get("cpu", 0),
        request.pod_info.resources.requests.get("memory", 0),
    )

    def grade(node_info: NodeInfo) -> int:
        change = _balance_score(node_info, cpu, memory) - _balance_score(node_info, 0, 0)
        return 50 + int((50 + change) / 2)  # truncates toward zero; 75 is neutral

    return grade


def _balance_score(node_info: NodeInfo, cpu: int, memory: int) -> int:
    if not _has_both(node_info):
        return 100
    allocatable, used = node_info.allocatable, node_info.used
    cpu_share = min(1.0, (used.get("cpu", 0) + cpu) / allocatable["cpu"])
    memory_share = min(1.0, (used.get("memory", 0) + memory) / allocatable["memory"])
    return int((1 - abs(cpu_share - memory_share) / 2) * 100)
