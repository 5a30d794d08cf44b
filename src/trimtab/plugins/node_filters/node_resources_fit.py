"""A pod runs where its requests fit into the free resources."""

from collections.abc import Callable, Hashable

import numpy as np

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Mask, Reason, node_filter
from trimtab.decide.pods.fit.resource_arrays import allocatable, free_pods, spare
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.node_rejection import crowded, hopeless, several, told
from trimtab.decide.pods.request import PodAsk


def requested_amounts(request: PodAsk) -> Hashable:
    return tuple(request.me.demand.requests.items())


def fits_mask(request: PodAsk, hosts: Fleet[Host]) -> Mask:
    mask: Mask = free_pods(hosts) >= 1
    for resource, amount in request.me.demand.requests.items():
        mask &= spare(hosts, resource) >= amount
    return mask


def never_fits_mask(request: PodAsk, hosts: Fleet[Host]) -> Mask:
    mask: Mask = np.zeros(len(hosts), dtype=bool)
    for resource, amount in request.me.demand.requests.items():
        mask |= allocatable(hosts, resource) < amount
    return mask


def prepare_fits(request: PodAsk) -> Callable[[Host], bool]:
    wanted = tuple(request.me.demand.requests.items())

    def check(node_info: Host) -> bool:
        allocatable, used = node_info.allocatable, node_info.used
        for resource, amount in wanted:
            if amount > allocatable.get(resource, 0) - used.get(resource, 0):
                return False
        return node_info.free_pods >= 1

    return check


@node_filter(
    "NodeResourcesFit", reads=requested_amounts, bulk=fits_mask, never_fits=never_fits_mask, predicate=prepare_fits
)
def node_resources_fit(request: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    wanted, fit = tuple(request.me.demand.requests.items()), prepare_fits(request)

    def check(node_info: Host) -> Reason | None:
        return None if fit(node_info) else _shortage(node_info, wanted)

    return check


def _shortage(node_info: Host, wanted: tuple[tuple[str, int], ...]) -> Reason:
    parts, never = [], False
    if node_info.free_pods < 1:
        parts.append(told("Too many pods", f"all {node_info.allocatable.get('pods', 0)} places are taken"))
    for resource, amount in wanted:
        if amount > node_info.free(resource):
            never = never or amount > node_info.allocatable.get(resource, 0)
            unit = "m" if resource == "cpu" else ""
            free, size = max(0, node_info.free(resource)), node_info.allocatable.get(resource, 0)
            parts.append(
                told(f"Insufficient {resource}", f"asks for {amount}{unit}, {free}{unit} of {size}{unit} is free")
            )
    return (hopeless if never else crowded)(several(parts))
