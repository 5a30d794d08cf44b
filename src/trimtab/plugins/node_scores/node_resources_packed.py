"""Nodes with less cpu and memory left over are better: for clusters that should be packed, not spread."""

from collections.abc import Hashable

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Grade, node_score
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.request import PodAsk


def assumed(ask: PodAsk) -> Hashable:
    return ask.me.demand.assumed_cpu, ask.me.demand.assumed_memory


@node_score("NodeResourcesMostAllocated", reads=assumed)
def node_resources_packed(ask: PodAsk, hosts: Fleet[Host]) -> Grade[Host]:
    """Takes the place of NodeResourcesFit in a scheduler's taste, as its strategy MostAllocated does."""
    cpu, memory = ask.me.demand.assumed_cpu, ask.me.demand.assumed_memory

    def grade(here: Host) -> int:
        taken = [
            0 if used > allocatable else used * 100 // allocatable
            for allocatable, used in (
                (here.allocatable.get("cpu", 0), here.assumed_cpu + cpu),
                (here.allocatable.get("memory", 0), here.assumed_memory + memory),
            )
            if allocatable
        ]
        return sum(taken) // len(taken) if taken else 0

    return grade
