"""Nodes whose cpu and memory would be used in more equal parts are better."""

from collections.abc import Hashable

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Grade, node_score
from trimtab.decide.pods.amount import allocatable, used
from trimtab.decide.pods.ask import PodAsk
from trimtab.decide.pods.host import Host


def balanced_requests(ask: PodAsk) -> Hashable:
    return ask.me.demand.requests.get("cpu", 0), ask.me.demand.requests.get("memory", 0)


def requests_neither(ask: PodAsk) -> bool:
    return balanced_requests(ask) == (0, 0)


def balances(ask: PodAsk, hosts: Fleet[Host]) -> Array:
    requests = ask.me.demand.requests
    before = hosts.derived("balances", lambda: _balances(hosts, 0, 0))
    change = _balances(hosts, requests.get("cpu", 0), requests.get("memory", 0)) - before
    graded: Array = 50 + ((50 + change) / 2).astype(np.int64)
    return graded


def _balances(hosts: Fleet[Host], cpu: int, memory: int) -> Array:
    sizes = {resource: allocatable(hosts, resource) for resource in ("cpu", "memory")}
    shares = [
        np.minimum(1.0, (used(hosts, resource) + more) / np.maximum(sizes[resource], 1))
        for resource, more in (("cpu", cpu), ("memory", memory))
    ]
    both = (sizes["cpu"] > 0) & (sizes["memory"] > 0)
    deviation = np.where(both, np.abs(shares[0] - shares[1]) / 2, 0.0)
    balanced: Array = ((1 - deviation) * 100).astype(np.int64)
    return balanced


@node_score("NodeResourcesBalancedAllocation", reads=balanced_requests, skips=requests_neither, bulk=balances)
def node_resources_balanced(ask: PodAsk, hosts: Fleet[Host]) -> Grade[Host]:
    cpu, memory = ask.me.demand.requests.get("cpu", 0), ask.me.demand.requests.get("memory", 0)

    def grade(here: Host) -> int:
        change = _balance(here, cpu, memory) - _balance(here, 0, 0)
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
