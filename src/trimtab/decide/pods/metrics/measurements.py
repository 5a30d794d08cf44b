"""What nodes and pods really use, where somebody measures it: as it is now, and smoothed so that one peak moves nobody."""

from collections.abc import Mapping
from math import floor
from typing import NamedTuple

from trimtab.decide.pods.fit.requests import Amounts

MEASURED = ("cpu", "memory")
KEPT = 0.9
"""The part of an average that a new look leaves as it was."""


class Measures(NamedTuple):
    """CPU in thousandths, memory in bytes."""

    nodes: Mapping[str, Amounts] = {}
    pods: Mapping[tuple[str, str], Amounts] = {}
    averages: Mapping[str, Amounts] = {}
    """What nodes have used for a while; those of which nobody keeps an average are not in it."""

    def steady(self, node: str) -> Amounts | None:
        """What a node uses, peaks aside; None where nothing tells."""
        return self.averages.get(node, self.nodes.get(node))

    def cpu_of(self, pod: tuple[str, str]) -> int:
        return self.pods.get(pod, {}).get("cpu", 0)


def averaged(before: Mapping[str, Amounts], now: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """The averages after one more look; a node that was never seen before starts with what it uses now."""
    return {name: _smoothed(before[name], used) if name in before else used for name, used in now.items()}


def shifted(averages: Mapping[str, Amounts], used: Amounts, source: str, target: str) -> dict[str, Amounts]:
    """The averages as they will be once a pod has moved: else a node would go on giving until its average is down."""
    found = dict(averages)
    for node, sign in ((source, -1), (target, 1)):
        if node in found:
            found[node] = {what: max(0, n + sign * used.get(what, 0)) for what, n in found[node].items()}
    return found


def _smoothed(before: Amounts, now: Amounts) -> Amounts:
    return {what: floor(KEPT * before.get(what, amount) + (1 - KEPT) * amount + 0.5) for what, amount in now.items()}
