"""A pod runs where its requests fit into the free resources."""

from collections.abc import Callable, Hashable

import numpy as np

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Mask, Reason, node_filter
from trimtab.decide.pods.fit.resource_arrays import allocatable_array, free_array, free_pods_array
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.node_rejection import join_messages, unresolvable_reason, unschedulable_reason, with_detail
from trimtab.decide.pods.request import PodRequest


def requested_amounts(request: PodRequest) -> Hashable:
    return tuple(request.pod_info.resources.requests.items())


def fits_mask(request: PodRequest, nodes: Fleet[NodeInfo]) -> Mask:
    mask: Mask = free_pods_array(nodes) >= 1
    for resource, amount in request.pod_info.resources.requests.items():
        mask &= free_array(nodes, resource) >= amount
    return mask


def never_fits_mask(request: PodRequest, nodes: Fleet[NodeInfo]) -> Mask:
    mask: Mask = np.zeros(len(nodes), dtype=bool)
    for resource, amount in request.pod_info.resources.requests.items():
        mask |= allocatable_array(nodes, resource) < amount
    return mask


def prepare_fits(request: PodRequest) -> Callable[[NodeInfo], bool]:
    wanted = tuple(request.pod_info.resources.requests.items())

    def check(node_info: NodeInfo) -> bool:
        allocatable, used = node_info.allocatable, node_info.used
        for resource, amount in wanted:
            if amount > allocatable.get(resource, 0) - used.get(resource, 0):
                return False
        return node_info.free_pods >= 1

    return check


@node_filter(
    "NodeResourcesFit", reads=requested_amounts, bulk=fits_mask, never_fits=never_fits_mask, predicate=prepare_fits
)
def node_resources_fit(request: PodRequest, nodes: Fleet[NodeInfo]) -> Check[NodeInfo]:
    wanted, fit = tuple(request.pod_info.resources.requests.items()), prepare_fits(request)

    def check(node_info: NodeInfo) -> Reason | None:
        return None if fit(node_info) else _shortage(node_info, wanted)

    return check


def _shortage(node_info: NodeInfo, wanted: tuple[tuple[str, int], ...]) -> Reason:
    parts, never = [], False
    if node_info.free_pods < 1:
        parts.append(with_detail("Too many pods", f"all {node_info.allocatable.get('pods', 0)} pod slots are used"))
    for resource, amount in wanted:
        if amount > node_info.free_amount(resource):
            never = never or amount > node_info.allocatable.get(resource, 0)
            unit = "m" if resource == "cpu" else ""
            free, size = max(0, node_info.free_amount(resource)), node_info.allocatable.get(resource, 0)
            parts.append(
                with_detail(
                    f"Insufficient {resource}", f"requests {amount}{unit}, {free}{unit} of {size}{unit} is free"
                )
            )
    return (unresolvable_reason if never else unschedulable_reason)(join_messages(parts))
