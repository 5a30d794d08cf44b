"""The gain of moving a pod, by the scheduler's own scores, so that rescheduler and scheduler agree."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from trimtab.decide.fleet import Array
from trimtab.decide.framework import Mask, node_scores
from trimtab.decide.pods.node_info import Host, Resident
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.request import PodAsk, ask_for
from trimtab.decide.pods.schedule import DEFAULT, Taste, best, sifted, weighted

FULL = 100
PACKED = "NodeResourcesMostAllocated"
PACKING = Taste(
    scores=tuple((PACKED if name == "NodeResourcesFit" else name, weight) for name, weight in DEFAULT.scores)
)
"""A scheduler that packs nodes: kube-scheduler with the strategy MostAllocated."""
WEIGHTS = dict((*DEFAULT.scores, *PACKING.scores))
OF_RESIDENTS = ("NodeResourcesFit", PACKED, "NodeResourcesBalancedAllocation")
"""Scores that a pod without affinity to others changes only on its own node."""


WISHES = ("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity")
"""Scores for the preferences of a pod, not for how full nodes are."""


class Prospect(NamedTuple):
    """Where a pod would go, and its gain in percent of the range of the scores that differ between nodes."""

    node: str | None
    gain: float = 0.0
    parts: dict[str, float] = {}
    """The gain per score plugin that differs between nodes, each in percent of its own range."""
    feasible: int = 0
    stays: bool = False
    """The scheduler would choose the current node again."""

    def gain_of(self, names: Collection[str]) -> float:
        """The gain by these plugins alone, with the scheduler's weights."""
        counted = [name for name in names if name in self.parts]
        scale = sum(WEIGHTS[name] for name in counted)
        return sum(WEIGHTS[name] * self.parts[name] for name in counted) / scale if scale else 0.0


def without(pod: Resident, fleet: NodeFleet) -> NodeFleet:
    """The fleet after the pod has left."""
    node = pod.pod.spec.node_name
    node_info = fleet.get(node)
    if node_info is None:
        return fleet
    known = next((one for one in node_info.residents if one.key == pod.key), None)
    return fleet.vacated([known], node) if known is not None else fleet


def homeless(pod: Resident) -> Resident:
    """The replacement: the same pod without a node."""
    return pod._replace(pod=pod.pod.but(spec=pod.pod.spec.but(node_name="")))


class Bench:
    """A fleet on which moves are tried; only what changed is computed again, as long as changes follow each other."""

    def __init__(self, fleet: NodeFleet, taste: Taste = DEFAULT) -> None:
        """`profile` is that of the scheduler that will place the replacements."""
        self.fleet, self._taste = fleet.fork(), taste
        self._columns: dict[Collection[str], Array] = {}

    def move(self, pod: Resident, target: str | None) -> None:
        """Move the pod to another node, or remove it."""
        self.fleet = without(pod, self.fleet)
        if target is not None:
            self.fleet = self.fleet.settled(homeless(pod), target)

    def prospect(self, pod: Resident, closed: frozenset[str] = frozenset(), avoided: Collection[str] = ()) -> Prospect:
        """The best node other than the current one by the scheduler's scores, compared with the current one."""
        node = pod.pod.spec.node_name
        node_info = self.fleet.get(node)
        known = (
            next((one for one in node_info.residents if one.key == pod.key), None) if node_info is not None else None
        )
        excluded_columns = self._columns_of(closed)
        request = ask_for(homeless(pod), self.fleet)
        if node_info is None or known is None:
            return _prospect(self._taste, request, self.fleet, excluded_columns, avoided, None)
        if not (request.wanted or request.watched or request.spreads):
            return _prospect(self._taste, request, self.fleet, excluded_columns, avoided, node_info.left([known]))
        rest = self.fleet.vacated([known], node)
        lifted = rest.hosts.targets[rest.hosts.index[node]]
        found = _prospect(self._taste, ask_for(request.me, rest), rest, excluded_columns, avoided, lifted)
        self.fleet = rest.settled(known, node)
        return found

    def _columns_of(self, closed: frozenset[str]) -> Array:
        """The set of nodes does not change during planning, so their columns stay valid."""
        if closed not in self._columns:
            index = self.fleet.hosts.index
            self._columns[closed] = np.array([index[name] for name in closed if name in index], dtype=np.intp)
        return self._columns[closed]


def _prospect(
    taste: Taste, ask: PodAsk, fleet: NodeFleet, shut: Array, avoided: Collection[str], lifted: Host | None
) -> Prospect:
    """`lifted` is the pod's node without it; `fleet` may still contain the pod when it has no affinity to others."""
    names = fleet.hosts.index
    feasible: Mask = sifted(ask, fleet, taste)
    others = feasible.copy()
    others[shut] = False
    if lifted is not None:
        others[names[lifted.name]] = False
    count = int(np.count_nonzero(others))
    if not count:
        return Prospect(None)
    column, marks = _choice(taste, ask, fleet, feasible, _liked(others, names, avoided), lifted)
    if lifted is None:
        return Prospect(fleet.hosts.names[column], FULL, {}, count)
    node_info = {name: int(array[names[lifted.name]]) for name, array in marks.items()}
    for name in OF_RESIDENTS:
        if name in marks:
            node_info[name] = WEIGHTS[name] * int(node_scores[name].study(ask, fleet.hosts)(lifted))
    stays = bool(feasible[names[lifted.name]]) and sum(node_info.values()) > sum(
        int(one[column]) for one in marks.values()
    )
    feasible[names[lifted.name]] = False  # its scores may include the pod itself
    elsewhere = np.flatnonzero(feasible)
    telling = [name for name, array in marks.items() if _differ(array[elsewhere], node_info[name])]
    scale = FULL * sum(WEIGHTS[name] for name in telling)
    better = {name: int(array[column]) - node_info[name] for name, array in marks.items()}
    parts = {name: better[name] / WEIGHTS[name] for name in telling}
    gain = FULL * sum(better.values()) / scale if scale else 0.0
    return Prospect(fleet.hosts.names[column], gain, parts, count, stays)


def _liked(others: Mask, names: Mapping[str, int], avoided: Collection[str]) -> Mask:
    """The nodes that are not on an avoid list, unless there are no others."""
    if not avoided:
        return others
    liked = others.copy()
    liked[[names[name] for name in avoided if name in names]] = False
    return liked if liked.any() else others


def _choice(
    taste: Taste, ask: PodAsk, fleet: NodeFleet, feasible: Mask, among: Mask, lifted: Host | None
) -> tuple[int, dict[str, Array]]:
    """The scheduler's choice among these, and all scores; the current node is scored even if it is not feasible."""
    compared = feasible
    if lifted is not None and not feasible[fleet.hosts.index[lifted.name]]:
        compared = feasible.copy()
        compared[fleet.hosts.index[lifted.name]] = True
    marks = dict(weighted(ask, fleet, compared, taste))
    total: Array = np.sum(list(marks.values()), axis=0) if marks else np.zeros(len(fleet), dtype=np.int64)
    column, _ = best(total, among, fleet)
    return column, marks


def _differ(marks: Array, own: int) -> bool:
    return int(marks.min()) != own or int(marks.max()) != own
