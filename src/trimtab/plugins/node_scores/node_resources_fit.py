"""Nodes with more cpu and memory left over are better."""

from collections.abc import Hashable

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Grade, node_score
from trimtab.decide.pods.amount import allocatable
from trimtab.decide.pods.amount import assumed as assumed_use
from trimtab.decide.pods.ask import PodAsk
from trimtab.decide.pods.host import Host


def assumed(ask: PodAsk) -> Hashable:
    return ask.me.demand.assumed_cpu, ask.me.demand.assumed_memory


def left_over(ask: PodAsk, hosts: Fleet[Host]) -> Array:
    total, counted = np.zeros(len(hosts), dtype=np.int64), np.zeros(len(hosts), dtype=np.int64)
    asked = {"cpu": ask.me.demand.assumed_cpu, "memory": ask.me.demand.assumed_memory}
    for resource, amount in asked.items():
        size = allocatable(hosts, resource)
        free = size - assumed_use(hosts, resource) - amount
        total += np.maximum(free, 0) * 100 // np.maximum(size, 1)
        counted += size > 0
    graded: Array = total // np.maximum(counted, 1)
    return graded


@node_score("NodeResourcesFit", reads=assumed, bulk=left_over)
def node_resources_fit(ask: PodAsk, hosts: Fleet[Host]) -> Grade[Host]:
    cpu, memory = ask.me.demand.assumed_cpu, ask.me.demand.assumed_memory

    def grade(here: Host) -> int:
        left = [
            _left_over(allocatable, used)
            for allocatable, used in (
                (here.allocatable.get("cpu", 0), here.assumed_cpu + cpu),
                (here.allocatable.get("memory", 0), here.assumed_memory + memory),
            )
            if allocatable
        ]
        return sum(left) // len(left) if left else 0

    return grade


def _left_over(allocatable: int, used: int) -> int:
    return 0 if used > allocatable else (allocatable - used) * 100 // allocatable
