"""Prefer nodes whose cpu and memory would be used in equal proportions."""

from collections.abc import Hashable

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Grade, node_score
from trimtab.decide.pods.fit.resource_arrays import requested, size
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.request import PodAsk


def balanced_requests(ask: PodAsk) -> Hashable:
    return ask.me.demand.requests.get("cpu", 0), ask.me.demand.requests.get("memory", 0)


def requests_neither(ask: PodAsk) -> bool:
    return balanced_requests(ask) == (0, 0)


def balances(ask: PodAsk, hosts: Fleet[Host]) -> Array:
    requests = ask.me.demand.requests
    change = _balances(hosts, requests.get("cpu", 0), requests.get("memory", 0))
    change -= hosts.column(
        "balance", lambda: lambda node_info: _balance(node_info, 0, 0), np.int64, bulk=lambda: _balances(hosts, 0, 0)
    )
    change += 50
    scores: Array = (change / 2).astype(np.int64)
    scores += 50
    return scores


def _balances(hosts: Fleet[Host], cpu: int, memory: int) -> Array:
    balanced = _share(hosts, "cpu", cpu)
    balanced -= _share(hosts, "memory", memory)
    np.abs(balanced, out=balanced)
    balanced /= 2
    both = hosts.column("balanced resources", lambda: _has_both, bool)
    if not both.all():
        balanced[~both] = 0.0
    np.subtract(1, balanced, out=balanced)
    balanced *= 100
    return balanced.astype(np.int64)


def _share(hosts: Fleet[Host], resource: str, more: int) -> Array:
    share: Array = requested(hosts, resource) + more
    share /= size(hosts, resource)
    return np.minimum(1.0, share, out=share)


def _has_both(here: Host) -> bool:
    return bool(here.allocatable.get("cpu") and here.allocatable.get("memory"))


@node_score("NodeResourcesBalancedAllocation", reads=balanced_requests, skips=requests_neither, bulk=balances)
def node_resources_balanced(ask: PodAsk, hosts: Fleet[Host]) -> Grade[Host]:
    cpu, memory = ask.me.demand.requests.get("cpu", 0), ask.me.demand.requests.get("memory", 0)

    def grade(node_info: Host) -> int:
        change = _balance(node_info, cpu, memory) - _balance(node_info, 0, 0)
        return 50 + int((50 + change) / 2)  # truncates toward zero; 75 is neutral

    return grade


def _balance(here: Host, cpu: int, memory: int) -> int:
    shares = [
        min(1.0, (here.used.get(resource, 0) + more) / allocatable)
        for resource, more in (("cpu", cpu), ("memory", memory))
        if (allocatable := here.allocatable.get(resource, 0))
    ]
    deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0
    return int((1 - deviation) * 100)
