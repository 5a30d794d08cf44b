"""A pod runs where its requests fit into the free resources."""

from collections.abc import Callable, Hashable

import numpy as np

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Mask, Reason, node_filter
from trimtab.decide.pods.fit.resource_arrays import allocatable, free_pods, spare
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.node_rejection import crowded, hopeless, several, told
from trimtab.decide.pods.request import PodAsk


def requests(ask: PodAsk) -> Hashable:
    return tuple(ask.me.demand.requests.items())


def everything_fits(ask: PodAsk, hosts: Fleet[Host]) -> Mask:
    mask: Mask = free_pods(hosts) >= 1
    for resource, amount in ask.me.demand.requests.items():
        mask &= spare(hosts, resource) >= amount
    return mask


def too_small(ask: PodAsk, hosts: Fleet[Host]) -> Mask:
    mask: Mask = np.zeros(len(hosts), dtype=bool)
    for resource, amount in ask.me.demand.requests.items():
        mask |= allocatable(hosts, resource) < amount
    return mask


def fits(ask: PodAsk) -> Callable[[Host], bool]:
    wanted = tuple(ask.me.demand.requests.items())

    def check(node_info: Host) -> bool:
        allocatable, used = node_info.allocatable, node_info.used
        for resource, amount in wanted:
            if amount > allocatable.get(resource, 0) - used.get(resource, 0):
                return False
        return node_info.free_pods >= 1

    return check


@node_filter("NodeResourcesFit", reads=requests, bulk=everything_fits, never_fits=too_small, predicate=fits)
def node_resources_fit(ask: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    wanted, fit = tuple(ask.me.demand.requests.items()), fits(ask)

    def check(node_info: Host) -> Reason | None:
        return None if fit(node_info) else _shortage(node_info, wanted)

    return check


def _shortage(here: Host, wanted: tuple[tuple[str, int], ...]) -> Reason:
    parts, never = [], False
    if here.free_pods < 1:
        parts.append(told("Too many pods", f"all {here.allocatable.get('pods', 0)} places are taken"))
    for resource, amount in wanted:
        if amount > here.free(resource):
            never = never or amount > here.allocatable.get(resource, 0)
            unit = "m" if resource == "cpu" else ""
            free, size = max(0, here.free(resource)), here.allocatable.get(resource, 0)
            parts.append(
                told(f"Insufficient {resource}", f"asks for {amount}{unit}, {free}{unit} of {size}{unit} is free")
            )
    return (hopeless if never else crowded)(several(parts))
