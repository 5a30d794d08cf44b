"""A pod runs where its requests fit into the free resources."""

from collections.abc import Hashable
from functools import partial

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Mask, Reason, node_filter
from trimtab.decide.pods.fit.resource_arrays import free_array, free_pods_array
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.node_rejection import UNRESOLVABLE, UNSCHEDULABLE, join_messages, with_detail
from trimtab.decide.pods.request import PodRequest


def requested_amounts(request: PodRequest) -> Hashable:
    return tuple(request.pod_info.resources.requests.items())


def fits_mask(request: PodRequest, nodes: Fleet[NodeInfo]) -> Mask:
    mask: Mask = free_pods_array(nodes) >= 1
    for resource, amount in request.pod_info.resources.requests.items():
        mask &= free_array(nodes, resource) >= amount
    return mask


@node_filter("NodeResourcesFit", reads=requested_amounts, array=fits_mask)
def node_resources_fit(request: PodRequest, nodes: Fleet[NodeInfo]) -> Check[NodeInfo]:
    wanted = tuple(request.pod_info.resources.requests.items())

    def check(node_info: NodeInfo) -> Reason | None:
        allocatable, used = node_info.allocatable, node_info.used
        for resource, amount in wanted:
            if amount > allocatable.get(resource, 0) - used.get(resource, 0):
                return _shortage(node_info, wanted)
        return None if node_info.free_pods >= 1 else _shortage(node_info, wanted)

    return check


def _shortage(node_info: NodeInfo, wanted: tuple[tuple[str, int], ...]) -> Reason:
    code, allocatable = UNSCHEDULABLE, node_info.allocatable
    for resource, amount in wanted:
        if amount > allocatable.get(resource, 0):
            code = UNRESOLVABLE
    return Reason(code, partial(_shortage_message, node_info, wanted))


def _shortage_message(node_info: NodeInfo, wanted: tuple[tuple[str, int], ...]) -> str:
    parts = []
    if node_info.free_pods < 1:
        parts.append(with_detail("Too many pods", f"all {node_info.allocatable.get('pods', 0)} pod slots are used"))
    for resource, amount in wanted:
        if amount > node_info.free_amount(resource):
            unit = "m" if resource == "cpu" else ""
            free, size = max(0, node_info.free_amount(resource)), node_info.allocatable.get(resource, 0)
            parts.append(
                with_detail(
                    f"Insufficient {resource}", f"requests {amount}{unit}, {free}{unit} of {size}{unit} is free"
                )
            )
    return join_messages(parts)
