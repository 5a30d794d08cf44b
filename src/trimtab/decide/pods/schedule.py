"""Chooses a node for a pod: runs the node filters and node scores on a snapshot of the cluster."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.fleet import Array
from trimtab.decide.framework import (
    FilterPlugin,
    Mask,
    Rejection,
    ScorePlugin,
    feasible_mask,
    filter_mask,
    first_rejections,
    node_filters,
    node_scores,
    score_array,
)
from trimtab.decide.pods.fit.resource_arrays import pod_counts
from trimtab.decide.pods.node_info import Host, Resident
from trimtab.decide.pods.node_rejection import CROWDED, words_of
from trimtab.decide.pods.node_snapshot import NodeFleet
from trimtab.decide.pods.request import PodAsk, ask_for

NodeFilter = FilterPlugin[PodAsk, Host]


class Taste(NamedTuple):
    """The plugins of a scheduler: filters in their order, scores with their weights."""

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
    """The chosen node, if any; `explain` gives the details of all nodes."""

    pod: Resident
    node: str | None
    total: int
    """The weighted score of the chosen node."""
    feasible: int
    """The number of feasible nodes."""
    tied: int
    """The number of nodes with the highest score; the one with the fewest pods wins, then the first name."""


class Opinion(NamedTuple):
    """The result of all plugins for one node."""

    node: str
    objection: Rejection | None
    marks: Mapping[str, int]
    """Weighted scores per plugin; empty when the node is rejected."""
    pods: int
    """The number of pods on the node, which breaks ties."""

    @property
    def total(self) -> int:
        return sum(self.marks.values())


NEVER = -(1 << 62)
AVOIDANCE = 1 << 40
"""Outweighs every score: an avoided node is chosen only when no other is feasible."""


def schedule(
    pod: Pod | Resident, fleet: NodeFleet, taste: Taste = DEFAULT, *, avoided: Collection[str] = ()
) -> Decision:
    """Return the best node for this pod; `avoided` nodes rank after all other feasible ones."""
    request = ask_for(pod, fleet)
    feasible = sifted(request, fleet, taste)
    count = int(np.count_nonzero(feasible))
    if count == 0:
        return Decision(request.me, None, 0, 0, 0)
    total = totals(request, fleet, feasible, taste)
    column, tied = best(_ranked(total, fleet, avoided), feasible, fleet)
    return Decision(request.me, fleet.hosts.names[column], int(total[column]), count, tied)


def _ranked(total: Array, fleet: NodeFleet, avoided: Collection[str]) -> Array:
    if not avoided:
        return total
    ranked = total.copy()
    ranked[[fleet.hosts.index[name] for name in avoided if name in fleet.hosts]] -= AVOIDANCE
    return ranked


def book(decision: Decision, fleet: NodeFleet) -> NodeFleet:
    """Return the next snapshot, in which the pod runs on its node."""
    return fleet if decision.node is None else fleet.settled(decision.pod, decision.node)


def explain(pod: Pod | Resident, fleet: NodeFleet, taste: Taste = DEFAULT) -> list[Opinion]:
    """Return the result of the same plugins for every node, best first, rejected nodes last."""
    request = ask_for(pod, fleet)
    feasible = sifted(request, fleet, taste)
    scores_by_plugin = dict(weighted(request, fleet, feasible, taste))
    found = []
    for column, rejection in refusals(request, fleet, range(len(fleet)), taste):
        scores = {} if rejection else {name: int(array[column]) for name, array in scores_by_plugin.items()}
        node_info = fleet.hosts.targets[column]
        found.append(Opinion(node_info.name, rejection, scores, len(node_info.residents)))
    return sorted(found, key=_liking)


def _liking(opinion: Opinion) -> tuple[bool, int, int, str]:
    """Sort key by which `schedule` chooses: best first."""
    return opinion.objection is not None, -opinion.total, opinion.pods, opinion.node


def nowhere(pod: Pod | Resident, fleet: NodeFleet, taste: Taste = DEFAULT) -> str:
    """Return kube-scheduler's message for an unschedulable pod: the number of nodes per reason."""
    if not len(fleet):
        return "no nodes available to schedule pods"
    counts: dict[str, int] = {}
    for _, rejection in refusals(ask_for(pod, fleet), fleet, range(len(fleet)), taste):
        for message in words_of(rejection.reason) if rejection else ():
            counts[message] = counts.get(message, 0) + 1
    summary = ", ".join(sorted(f"{count} {message}" for message, count in counts.items()))
    return f"0/{len(fleet)} nodes are available: {summary}."


def best(total: Array, feasible: Mask, fleet: NodeFleet) -> tuple[int, int]:
    """Return the column with the highest total and the number of ties; the fewest pods win, then the first name.

    Scores are integers, so a large node keeps its score with a few pods more. By the first name alone, pods would pile
    up on one node where kube-scheduler chooses at random.
    """
    ranked = np.where(feasible, total, NEVER)
    column = int(ranked.argmax())
    equal = np.flatnonzero(ranked == ranked[column])
    if len(equal) > 1:
        column = int(equal[pod_counts(fleet.hosts)[equal].argmin()])
    return column, len(equal)


def sifted(ask: PodAsk, fleet: NodeFleet, taste: Taste) -> Mask:
    """Return the nodes that pass all filters, also once the pods nominated to them have arrived."""
    mask = feasible_mask(active_filters(ask, taste), ask, fleet.hosts)
    for node, nominated in fleet.nominated.items():
        column = fleet.hosts.index.get(node)
        if column is not None and mask[column]:
            mask[column] = _crowd_objection(ask, fleet, node, nominated, taste) is None
    return mask


def refusals(
    ask: PodAsk, fleet: NodeFleet, columns: Iterable[int], taste: Taste
) -> Iterator[tuple[int, Rejection | None]]:
    """Yield the first rejection of each of these nodes, in the order of the filters."""
    for column, rejection in first_rejections(active_filters(ask, taste), ask, fleet.hosts, columns):
        node = fleet.hosts.names[column]
        nominated = fleet.nominated.get(node, ())
        if rejection is None and nominated:
            yield column, _crowd_objection(ask, fleet, node, nominated, taste)
        else:
            yield column, rejection


def _crowd_objection(
    ask: PodAsk, fleet: NodeFleet, node: str, waiting: tuple[Resident, ...], taste: Taste
) -> Rejection | None:
    """Return the rejection once the nominated pods of equal or higher priority run on the node."""
    ahead = [one for one in waiting if one.priority >= ask.me.priority and one.key != ask.me.key]
    if not ahead:
        return None
    with_nominated = fleet.fork()
    for one in ahead:
        with_nominated = with_nominated.settled(one, node)
    return objection_to(ask_for(ask.me, with_nominated), with_nominated, node, taste)


def objection_to(ask: PodAsk, fleet: NodeFleet, node: str, taste: Taste) -> Rejection | None:
    """Return the first rejection of one node."""
    ((_, rejection),) = first_rejections(active_filters(ask, taste), ask, fleet.hosts, [fleet.hosts.index[node]])
    return rejection


def active_filters(ask: PodAsk, taste: Taste) -> list[NodeFilter]:
    return [plugin for plugin in _named(taste.filters) if plugin.skips is None or not plugin.skips(ask)]


@cache
def _named(filters: tuple[str, ...]) -> tuple[NodeFilter, ...]:
    return tuple(node_filters[name] for name in filters)


def crowded_nodes(ask: PodAsk, fleet: NodeFleet, taste: Taste) -> Mask:
    """Return nodes whose first rejection depends on the pods that run there; as `node_rejections`, but on arrays."""
    undecided, resolvable = np.ones(len(fleet), dtype=bool), np.zeros(len(fleet), dtype=bool)
    for plugin in active_filters(ask, taste):
        rejected = undecided & ~filter_mask(plugin, ask, fleet.hosts)
        if not rejected.any():
            continue
        undecided &= ~rejected
        if plugin.never_fits is not None:
            resolvable |= rejected & ~plugin.never_fits(ask, fleet.hosts)
        elif plugin.reads is not None:
            key = (plugin, "crowded", plugin.reads(ask))
            resolvable |= rejected & fleet.hosts.column(key, partial(_crowdedness, plugin, ask, fleet), bool)
        else:
            is_resolvable = _crowdedness(plugin, ask, fleet)
            resolvable[
                [column for column in np.flatnonzero(rejected).tolist() if is_resolvable(fleet.hosts.targets[column])]
            ] = True
    for node, nominated in fleet.nominated.items():
        column = fleet.hosts.index.get(node)
        if column is not None and undecided[column]:
            rejection = _crowd_objection(ask, fleet, node, nominated, taste)
            resolvable[column] = rejection is not None and rejection.reason.code == CROWDED
    return resolvable


def _crowdedness(plugin: NodeFilter, ask: PodAsk, fleet: NodeFleet) -> Callable[[Host], bool]:
    check = plugin.prepare(ask, fleet.hosts)

    def is_resolvable(node_info: Host) -> bool:
        reason = check(node_info)
        return reason is not None and reason.code == CROWDED

    return is_resolvable


def totals(ask: PodAsk, fleet: NodeFleet, feasible: Mask, taste: Taste) -> Array:
    """Return the sum of all weighted scores; undefined for nodes that are not feasible."""
    total = np.zeros(len(fleet), dtype=np.int64)
    for _, array in weighted(ask, fleet, feasible, taste):
        total += array
    return total


def weighted(ask: PodAsk, fleet: NodeFleet, feasible: Mask, taste: Taste) -> Iterator[tuple[str, Array]]:
    """Yield the weighted scores of every plugin that does not skip the pod."""
    for name, weight in taste.scores:
        scores = _graded(node_scores[name], ask, fleet, feasible)
        if scores is not None:
            yield name, scores if weight == 1 else scores * weight


def _graded(plugin: ScorePlugin[Any, Any], ask: PodAsk, fleet: NodeFleet, feasible: Mask) -> Array | None:
    if plugin.skips is not None and plugin.skips(ask):
        return None
    if plugin.evaluate_all is not None:
        return plugin.evaluate_all(ask, fleet.hosts, feasible)
    raw = score_array(plugin, ask, fleet.hosts)
    if plugin.normalize is None:
        return raw
    if feasible.all():
        return plugin.normalize(raw)
    normalized: Array = np.zeros(len(raw), dtype=np.int64)
    normalized[feasible] = plugin.normalize(raw[feasible])
    return normalized
