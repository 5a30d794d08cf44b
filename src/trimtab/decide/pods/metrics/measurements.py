"""Measured usage of nodes and pods: the current values, and averages that smooth out single peaks."""

from collections.abc import Mapping
from math import floor
from typing import NamedTuple

from trimtab.decide.pods.fit.requests import Amounts

METRIC_RESOURCES = ("cpu", "memory")
SMOOTHING_FACTOR = 0.9
"""The weight of the old average when a new measurement arrives."""


class UsageMetrics(NamedTuple):
    """CPU in millicores, memory in bytes."""

    nodes: Mapping[str, Amounts] = {}
    pods: Mapping[tuple[str, str], Amounts] = {}
    averages: Mapping[str, Amounts] = {}
    """Smoothed usage of nodes; nodes without an average are missing."""

    def smoothed_usage(self, node: str) -> Amounts | None:
        """Return the smoothed usage of a node, or its current usage without an average; None without metrics."""
        return self.averages.get(node, self.nodes.get(node))

    def cpu_of(self, pod: tuple[str, str]) -> int:
        return self.pods.get(pod, {}).get("cpu", 0)


def update_averages(before: Mapping[str, Amounts], now: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """Return the averages after a new measurement; a new node starts with its current usage."""
    return {name: _smooth(before[name], used) if name in before else used for name, used in now.items()}


def shift_averages(averages: Mapping[str, Amounts], used: Amounts, source: str, target: str) -> dict[str, Amounts]:
    """Return the averages expected after a move: otherwise pods would be evicted until the average drops."""
    found = dict(averages)
    for node, sign in ((source, -1), (target, 1)):
        if node in found:
            found[node] = {what: max(0, n + sign * used.get(what, 0)) for what, n in found[node].items()}
    return found


def _smooth(before: Amounts, now: Amounts) -> Amounts:
    return {
        what: floor(SMOOTHING_FACTOR * before.get(what, amount) + (1 - SMOOTHING_FACTOR) * amount + 0.5)
        for what, amount in now.items()
    }
