"""How much better a pod would be off elsewhere, by the scheduler's own scores: so that both never disagree."""

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
"""A scheduler that fills nodes one after the other: kube-scheduler with the strategy MostAllocated."""
WEIGHTS = dict((*DEFAULT.scores, *PACKING.scores))
OF_RESIDENTS = ("NodeResourcesFit", PACKED, "NodeResourcesBalancedAllocation")
"""Scores that a pod which minds no other pod changes by its presence, and only on its own node."""


WISHES = ("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity")
"""Scores that speak of what a pod prefers, not of how full nodes are."""


class Prospect(NamedTuple):
    """Where a pod would go, and what it would gain, in percent of what the scores that tell nodes apart allow."""

    node: str | None
    gain: float = 0.0
    parts: dict[str, float] = {}
    """The gain by score plugin that tells nodes apart, each in percent of its own scale."""
    feasible: int = 0
    stays: bool = False
    """The scheduler, asked again, would rather have it where it is."""

    def gain_of(self, names: Collection[str]) -> float:
        """The gain by these plugins alone, each as heavy as it is for the scheduler."""
        heard = [name for name in names if name in self.parts]
        scale = sum(WEIGHTS[name] for name in heard)
        return sum(WEIGHTS[name] * self.parts[name] for name in heard) / scale if scale else 0.0


def without(pod: Resident, fleet: NodeFleet) -> NodeFleet:
    """The cluster as the scheduler will see it when the pod has left."""
    node = pod.pod.spec.node_name
    here = fleet.get(node)
    if here is None:
        return fleet
    known = next((one for one in here.residents if one.key == pod.key), None)
    return fleet.vacated([known], node) if known is not None else fleet


def homeless(pod: Resident) -> Resident:
    """The replacement: the same pod, with no node yet."""
    return pod._replace(pod=pod.pod.but(spec=pod.pod.spec.but(node_name="")))


class Bench:
    """A picture on which pods are lifted and put back: only what changed is judged again, as long as it goes on in line."""

    def __init__(self, fleet: NodeFleet, taste: Taste = DEFAULT) -> None:
        """`taste` is that of the scheduler who will place what is lifted."""
        self.fleet, self._taste = fleet.fork(), taste
        self._columns: dict[Collection[str], Array] = {}

    def move(self, pod: Resident, target: str | None) -> None:
        """The pod has left for another node, or for good."""
        self.fleet = without(pod, self.fleet)
        if target is not None:
            self.fleet = self.fleet.settled(homeless(pod), target)

    def prospect(self, pod: Resident, closed: frozenset[str] = frozenset(), avoided: Collection[str] = ()) -> Prospect:
        """The node that the scheduler would choose other than the present one, compared with the present one."""
        node = pod.pod.spec.node_name
        here = self.fleet.get(node)
        known = next((one for one in here.residents if one.key == pod.key), None) if here is not None else None
        shut = self._columns_of(closed)
        ask = ask_for(homeless(pod), self.fleet)
        if here is None or known is None:
            return _prospect(self._taste, ask, self.fleet, shut, avoided, None)
        if not (ask.wanted or ask.watched or ask.spreads):
            return _prospect(self._taste, ask, self.fleet, shut, avoided, here.left([known]))
        rest = self.fleet.vacated([known], node)
        lifted = rest.hosts.targets[rest.hosts.index[node]]
        found = _prospect(self._taste, ask_for(ask.me, rest), rest, shut, avoided, lifted)
        self.fleet = rest.settled(known, node)
        return found

    def _columns_of(self, closed: frozenset[str]) -> Array:
        """Nodes neither come nor go while plans are made, so their columns stay."""
        if closed not in self._columns:
            index = self.fleet.hosts.index
            self._columns[closed] = np.array([index[name] for name in closed if name in index], dtype=np.intp)
        return self._columns[closed]


def _prospect(
    taste: Taste, ask: PodAsk, fleet: NodeFleet, shut: Array, avoided: Collection[str], lifted: Host | None
) -> Prospect:
    """`lifted` is the pod's node without it; in `fleet` it may still be there when it minds no other pod."""
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
    here = {name: int(array[names[lifted.name]]) for name, array in marks.items()}
    for name in OF_RESIDENTS:
        if name in marks:
            here[name] = WEIGHTS[name] * int(node_scores[name].study(ask, fleet.hosts)(lifted))
    stays = bool(feasible[names[lifted.name]]) and sum(here.values()) > sum(int(one[column]) for one in marks.values())
    feasible[names[lifted.name]] = False  # its marks may be those with the pod
    elsewhere = np.flatnonzero(feasible)
    telling = [name for name, array in marks.items() if _differ(array[elsewhere], here[name])]
    scale = FULL * sum(WEIGHTS[name] for name in telling)
    better = {name: int(array[column]) - here[name] for name, array in marks.items()}
    parts = {name: better[name] / WEIGHTS[name] for name in telling}
    gain = FULL * sum(better.values()) / scale if scale else 0.0
    return Prospect(fleet.hosts.names[column], gain, parts, count, stays)


def _liked(others: Mask, names: Mapping[str, int], avoided: Collection[str]) -> Mask:
    """Those that are not to be avoided, unless there are no others."""
    if not avoided:
        return others
    liked = others.copy()
    liked[[names[name] for name in avoided if name in names]] = False
    return liked if liked.any() else others


def _choice(
    taste: Taste, ask: PodAsk, fleet: NodeFleet, feasible: Mask, among: Mask, lifted: Host | None
) -> tuple[int, dict[str, Array]]:
    """The scheduler's choice among these, and all its marks; the present node is compared even if it would not do."""
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
