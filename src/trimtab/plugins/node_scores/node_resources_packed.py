"""Prefer nodes with less free cpu and memory: for clusters that should be packed, not spread."""

from collections.abc import Hashable

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Scorer, node_score
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.request import PodRequest


def assumed_requests(request: PodRequest) -> Hashable:
    return request.pod_info.resources.assumed_cpu, request.pod_info.resources.assumed_memory


@node_score("NodeResourcesMostAllocated", reads=assumed_requests)
def node_resources_packed(request: PodRequest, nodes: Fleet[NodeInfo]) -> Scorer[NodeInfo]:
    """Replaces NodeResourcesFit in a scheduler profile, as its strategy MostAllocated does."""
    cpu, memory = request.pod_info.resources.assumed_cpu, request.pod_info.resources.assumed_memory

    def grade(node_info: NodeInfo) -> int:
        taken = [
            0 if used > allocatable else used * 100 // allocatable
            for allocatable, used in (
                (node_info.allocatable.get("cpu", 0), node_info.assumed_cpu + cpu),
                (node_info.allocatable.get("memory", 0), node_info.assumed_memory + memory),
            )
            if allocatable
        ]
        return sum(taken) // len(taken) if taken else 0

    return grade
