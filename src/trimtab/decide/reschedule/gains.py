"""How much better a pod would be off elsewhere, by the scheduler's own scores: so that both never disagree."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from trimtab.decide.fleet import Array
from trimtab.decide.framework import Mask
from trimtab.decide.pods.ask import ask_for
from trimtab.decide.pods.fleet import NodeFleet
from trimtab.decide.pods.host import Resident
from trimtab.decide.pods.schedule import DEFAULT, best, sifted, weighted

FULL = 100


class Prospect(NamedTuple):
    """Where a pod would go, and what it would gain, in percent of what the scores that tell nodes apart allow."""

    node: str | None
    gain: float = 0.0
    parts: dict[str, float] = {}
    """The gain by score plugin, each in percent of its own scale."""
    feasible: int = 0


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

    def __init__(self, fleet: NodeFleet) -> None:
        self.fleet = fleet.fork()

    def move(self, pod: Resident, target: str | None) -> None:
        """The pod has left for another node, or for good."""
        self.fleet = without(pod, self.fleet)
        if target is not None:
            self.fleet = self.fleet.settled(homeless(pod), target)

    def prospect(self, pod: Resident, closed: Collection[str] = (), avoided: Collection[str] = ()) -> Prospect:
        """The node that the scheduler would choose other than the present one, compared with the present one."""
        node = pod.pod.spec.node_name
        here = self.fleet.get(node)
        known = next((one for one in here.residents if one.key == pod.key), None) if here is not None else None
        if known is None:
            return _prospect(pod, self.fleet, closed, avoided)
        rest = self.fleet.vacated([known], node)
        found = _prospect(pod, rest, closed, avoided)
        self.fleet = rest.settled(known, node)
        return found


def _prospect(pod: Resident, rest: NodeFleet, closed: Collection[str], avoided: Collection[str]) -> Prospect:
    """`rest` is the cluster without the pod."""
    ask = ask_for(homeless(pod), rest)
    names = rest.hosts.index
    here = names.get(pod.pod.spec.node_name)
    feasible: Mask = sifted(ask, rest, DEFAULT)
    others = feasible.copy()
    for name in (*closed, *([pod.pod.spec.node_name] if here is not None else ())):
        if name in names:
            others[names[name]] = False
    if not others.any():
        return Prospect(None)
    liked = others.copy()
    for name in avoided:
        if name in names:
            liked[names[name]] = False
    chosen = liked if liked.any() else others
    compared: Mask = feasible.copy()
    if here is not None:
        compared[here] = True
    marks = dict(weighted(ask, rest, compared, DEFAULT))
    total: Array = np.sum(list(marks.values()), axis=0) if marks else np.zeros(len(rest), dtype=np.int64)
    column, _ = best(total, chosen, rest)
    if here is None:
        return Prospect(rest.hosts.names[column], FULL, {}, int(others.sum()))
    weights = dict(DEFAULT.scores)
    telling = [name for name, array in marks.items() if np.ptp(array[compared])]
    scale = FULL * sum(weights[name] for name in telling)
    gain = FULL * float(total[column] - total[here]) / scale if scale else 0.0
    parts = {name: float(array[column] - array[here]) / weights[name] for name, array in marks.items()}
    return Prospect(rest.hosts.names[column], gain, parts, int(others.sum()))
