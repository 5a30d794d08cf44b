"""Where a pod goes: the node filters, the node scores and the choice, on a picture of the cluster."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.fleet import Array
from trimtab.decide.framework import (
    Filter,
    Mask,
    Objection,
    Score,
    grades,
    node_filters,
    node_scores,
    objections,
    sift,
    verdicts,
)
from trimtab.decide.pods.fit.resource_arrays import pod_counts
from trimtab.decide.pods.node_info import Host, Resident
from trimtab.decide.pods.node_rejection import CROWDED, words_of
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.request import PodAsk, ask_for

NodeFilter = Filter[PodAsk, Host]


class Taste(NamedTuple):
    """Which rules a scheduler follows: filters in the order they are asked, scores with their weights."""

    filters: tuple[str, ...] = (
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "PodTopologySpread",
        "InterPodAffinity",
    )
    scores: tuple[tuple[str, int], ...] = (
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("NodeResourcesFit", 1),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    )


DEFAULT = Taste()


class Decision(NamedTuple):
    """The node, if any; what was thought of the others is told by `explain`."""

    pod: Resident
    node: str | None
    total: int
    """The weighted grade of the chosen node."""
    feasible: int
    """How many nodes could have taken the pod."""
    tied: int
    """How many of them were as good as the chosen one; the one with the fewest pods wins, then the first name."""


class Opinion(NamedTuple):
    """What was thought of one node."""

    node: str
    objection: Objection | None
    marks: Mapping[str, int]
    """Weighted grades per plugin; empty when something stands against the node."""
    pods: int
    """How many pods the node has, which decides among equals."""

    @property
    def total(self) -> int:
        return sum(self.marks.values())


NEVER = -(1 << 62)
AVOIDANCE = 1 << 40
"""Outweighs every preference: a node that is to be avoided is taken only when there is no other."""


def schedule(
    pod: Pod | Resident, fleet: NodeFleet, taste: Taste = DEFAULT, *, avoided: Collection[str] = ()
) -> Decision:
    """The best node for this pod now; `avoided` nodes come after all others that would do."""
    ask = ask_for(pod, fleet)
    feasible = sifted(ask, fleet, taste)
    count = int(np.count_nonzero(feasible))
    if count == 0:
        return Decision(ask.me, None, 0, 0, 0)
    total = totals(ask, fleet, feasible, taste)
    column, tied = best(_ranked(total, fleet, avoided), feasible, fleet)
    return Decision(ask.me, fleet.hosts.names[column], int(total[column]), count, tied)


def _ranked(total: Array, fleet: NodeFleet, avoided: Collection[str]) -> Array:
    if not avoided:
        return total
    ranked = total.copy()
    ranked[[fleet.hosts.index[name] for name in avoided if name in fleet.hosts]] -= AVOIDANCE
    return ranked


def book(decision: Decision, fleet: NodeFleet) -> NodeFleet:
    """The next picture, in which the pod is on its node."""
    return fleet if decision.node is None else fleet.settled(decision.pod, decision.node)


def explain(pod: Pod | Resident, fleet: NodeFleet, taste: Taste = DEFAULT) -> list[Opinion]:
    """What the same plugins say of every node, best first, then those turned down."""
    ask = ask_for(pod, fleet)
    feasible = sifted(ask, fleet, taste)
    marked = dict(weighted(ask, fleet, feasible, taste))
    found = []
    for column, objection in refusals(ask, fleet, range(len(fleet)), taste):
        marks = {} if objection else {name: int(array[column]) for name, array in marked.items()}
        here = fleet.hosts.targets[column]
        found.append(Opinion(here.name, objection, marks, len(here.residents)))
    return sorted(found, key=_liking)


def _liking(opinion: Opinion) -> tuple[bool, int, int, str]:
    """Sorts the best first, by the rule that the choice follows."""
    return opinion.objection is not None, -opinion.total, opinion.pods, opinion.node


def nowhere(pod: Pod | Resident, fleet: NodeFleet, taste: Taste = DEFAULT) -> str:
    """Why no node will do, in kube-scheduler's one sentence: how many nodes for which reason."""
    if not len(fleet):
        return "no nodes available to schedule pods"
    counts: dict[str, int] = {}
    for _, objection in refusals(ask_for(pod, fleet), fleet, range(len(fleet)), taste):
        for words in words_of(objection.reason) if objection else ():
            counts[words] = counts.get(words, 0) + 1
    told = ", ".join(sorted(f"{count} {words}" for words, count in counts.items()))
    return f"0/{len(fleet)} nodes are available: {told}."


def best(total: Array, feasible: Mask, fleet: NodeFleet) -> tuple[int, int]:
    """The column with the highest total, and how many are equal; among them the fewest pods win, then the first name.

    Grades are whole numbers, so that a large node has the same grade with a few pods more: the first name alone would
    pile pods up where kube-scheduler rolls dice.
    """
    ranked = np.where(feasible, total, NEVER)
    column = int(ranked.argmax())
    equal = np.flatnonzero(ranked == ranked[column])
    if len(equal) > 1:
        column = int(equal[pod_counts(fleet.hosts)[equal].argmin()])
    return column, len(equal)


def sifted(ask: PodAsk, fleet: NodeFleet, taste: Taste) -> Mask:
    """The nodes that nothing stands against, also when pods that were promised room there have come."""
    mask = sift(active_filters(ask, taste), ask, fleet.hosts)
    for node, waiting in fleet.nominated.items():
        column = fleet.hosts.index.get(node)
        if column is not None and mask[column]:
            mask[column] = _crowd_objection(ask, fleet, node, waiting, taste) is None
    return mask


def refusals(
    ask: PodAsk, fleet: NodeFleet, columns: Iterable[int], taste: Taste
) -> Iterator[tuple[int, Objection | None]]:
    """The first objection to each of these nodes, in the order of the filters."""
    for column, objection in objections(active_filters(ask, taste), ask, fleet.hosts, columns):
        node = fleet.hosts.names[column]
        waiting = fleet.nominated.get(node, ())
        if objection is None and waiting:
            yield column, _crowd_objection(ask, fleet, node, waiting, taste)
        else:
            yield column, objection


def _crowd_objection(
    ask: PodAsk, fleet: NodeFleet, node: str, waiting: tuple[Resident, ...], taste: Taste
) -> Objection | None:
    """What stands against the node once the pods that wait for it, and are as important, are there."""
    ahead = [one for one in waiting if one.priority >= ask.me.priority and one.key != ask.me.key]
    if not ahead:
        return None
    crowded = fleet.fork()
    for one in ahead:
        crowded = crowded.settled(one, node)
    return objection_to(ask_for(ask.me, crowded), crowded, node, taste)


def objection_to(ask: PodAsk, fleet: NodeFleet, node: str, taste: Taste) -> Objection | None:
    """The first objection to one node."""
    ((_, objection),) = objections(active_filters(ask, taste), ask, fleet.hosts, [fleet.hosts.index[node]])
    return objection


def active_filters(ask: PodAsk, taste: Taste) -> list[NodeFilter]:
    return [plugin for plugin in _named(taste.filters) if plugin.skips is None or not plugin.skips(ask)]


@cache
def _named(filters: tuple[str, ...]) -> tuple[NodeFilter, ...]:
    return tuple(node_filters[name] for name in filters)


def crowded_nodes(ask: PodAsk, fleet: NodeFleet, taste: Taste) -> Mask:
    """Nodes whose first objection is about what runs there; the same rules as `refusals`, kept as arrays."""
    undecided, crowded = np.ones(len(fleet), dtype=bool), np.zeros(len(fleet), dtype=bool)
    for plugin in active_filters(ask, taste):
        refused = undecided & ~verdicts(plugin, ask, fleet.hosts)
        if not refused.any():
            continue
        undecided &= ~refused
        if plugin.never is not None:
            crowded |= refused & ~plugin.never(ask, fleet.hosts)
        elif plugin.reads is not None:
            key = (plugin, "crowded", plugin.reads(ask))
            crowded |= refused & fleet.hosts.column(key, partial(_crowdedness, plugin, ask, fleet), bool)
        else:
            judge = _crowdedness(plugin, ask, fleet)
            crowded[[column for column in np.flatnonzero(refused).tolist() if judge(fleet.hosts.targets[column])]] = (
                True
            )
    for node, waiting in fleet.nominated.items():
        column = fleet.hosts.index.get(node)
        if column is not None and undecided[column]:
            objection = _crowd_objection(ask, fleet, node, waiting, taste)
            crowded[column] = objection is not None and objection.reason.code == CROWDED
    return crowded


def _crowdedness(plugin: NodeFilter, ask: PodAsk, fleet: NodeFleet) -> Callable[[Host], bool]:
    check = plugin.study(ask, fleet.hosts)

    def crowded(here: Host) -> bool:
        reason = check(here)
        return reason is not None and reason.code == CROWDED

    return crowded


def totals(ask: PodAsk, fleet: NodeFleet, feasible: Mask, taste: Taste) -> Array:
    """The sum of all weighted grades; meaningless for nodes that are not feasible."""
    total = np.zeros(len(fleet), dtype=np.int64)
    for _, array in weighted(ask, fleet, feasible, taste):
        total += array
    return total


def weighted(ask: PodAsk, fleet: NodeFleet, feasible: Mask, taste: Taste) -> Iterator[tuple[str, Array]]:
    """The grades of every plugin that has something to say, times its weight."""
    for name, weight in taste.scores:
        graded = _graded(node_scores[name], ask, fleet, feasible)
        if graded is not None:
            yield name, graded if weight == 1 else graded * weight


def _graded(plugin: Score[Any, Any], ask: PodAsk, fleet: NodeFleet, feasible: Mask) -> Array | None:
    if plugin.skips is not None and plugin.skips(ask):
        return None
    if plugin.sweep is not None:
        return plugin.sweep(ask, fleet.hosts, feasible)
    raw = grades(plugin, ask, fleet.hosts)
    if plugin.settle is None:
        return raw
    if feasible.all():
        return plugin.settle(raw)
    settled: Array = np.zeros(len(raw), dtype=np.int64)
    settled[feasible] = plugin.settle(raw[feasible])
    return settled
