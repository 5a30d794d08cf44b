"""The nodes of a lean member: what is allocatable and used on each, as numbers."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, cast

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import NodePool, Taint
from trimtab.api.kinds.native.node import Node
from trimtab.api.kinds.work import NodeClaim
from trimtab.api.value import Raw
from trimtab.decide.node_capacity import is_eligible
from trimtab.decide.pods.fit.requests import Amounts
from trimtab.simulate.fleet import NodePlan
from trimtab.simulate.kubelets.machine import SimulatedMachine, node_object

ReplicaCounts = tuple[int, ...]
"""Replicas on each node, in the order of the nodes."""


class PodSize(NamedTuple):
    """What one replica requests, and which nodes it may run on."""

    requests: Amounts
    claim: NodeClaim | None = None


class LeanNodes:
    """Places replicas on the first nodes with enough free resources."""

    def __init__(self, plans: Sequence[NodePlan], now: datetime) -> None:
        machines = [SimulatedMachine(plan, number) for number, plan in enumerate(plans, 1)]
        self.objects: list[Raw] = [node_object(machine, now) for machine in machines]
        self.typed = [cast("Node", kind_of(Node).decode(raw)) for raw in self.objects]
        self._free: list[Amounts] = [dict(machine.capacity) for machine in machines]
        self._capacity = [machine.capacity for machine in machines]
        self._pools = [pool_of(node) for node in self.typed]

    def place(self, size: PodSize, replicas: int) -> ReplicaCounts:
        """Take the resources of so many replicas, or of as many as fit."""
        counts = []
        for number, free in enumerate(self._free):
            count = min(replicas, self._fitting(number, size))
            for name, amount in size.requests.items():
                free[name] = free.get(name, 0) - amount * count
            replicas -= count
            counts.append(count)
        return tuple(counts)

    def _fitting(self, number: int, size: PodSize) -> int:
        if not is_eligible(self._pools[number], size.claim, ()):
            return 0
        free = self._free[number]
        return max(0, min((free.get(name, 0) // amount for name, amount in size.requests.items() if amount), default=0))

    def release(self, size: PodSize, counts: ReplicaCounts) -> None:
        """Free the resources of these replicas."""
        for free, count in zip(self._free, counts, strict=True):
            for name, amount in size.requests.items():
                free[name] = free.get(name, 0) + amount * count

    def occupy(self, amounts: Amounts) -> None:
        """Take these amounts on every node, for what is not simulated."""
        for free in self._free:
            for name, amount in amounts.items():
                free[name] = free.get(name, 0) - amount

    def used_amounts(self) -> dict[str, Amounts]:
        """What is used on each node, by its name."""
        return {
            node.name: {name: total - free.get(name, 0) for name, total in capacity.items() if total != free.get(name)}
            for node, capacity, free in zip(self.typed, self._capacity, self._free, strict=True)
        }


def pool_of(node: Node) -> NodePool:
    """The labels and taints of a node, as those of a pool of one node."""
    taints = tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in node.spec.taints)
    return NodePool(labels=node.metadata.labels, taints=taints)
