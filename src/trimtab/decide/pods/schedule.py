"""Chooses a node for a pod: runs the node filters and node scores on a snapshot of the cluster."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple

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
    scores_of,
)
from trimtab.decide.pods.fit.resource_arrays import pod_counts
from trimtab.decide.pods.node_info import NodeInfo, PodInfo
from trimtab.decide.pods.node_rejection import UNSCHEDULABLE, messages_of
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.request import PodRequest, pod_request_for

NodeFilter = FilterPlugin[PodRequest, NodeInfo]
NodeScore = ScorePlugin[PodRequest, NodeInfo]


class SchedulerProfile(NamedTuple):
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


DEFAULT_SCHEDULER_PROFILE = SchedulerProfile()


class SchedulingDecision(NamedTuple):
    """The chosen node, if any; `explain` gives the details of all nodes."""

    pod: PodInfo
    node: str | None
    total: int
    """The weighted score of the chosen node."""
    feasible_count: int
    """The number of feasible nodes."""
    tied_count: int
    """The number of nodes with the highest score; the one with the fewest pods wins, then the first name."""


class NodeExplanation(NamedTuple):
    """The result of all plugins for one node."""

    node: str
    rejection: Rejection | None
    scores: Mapping[str, int]
    """Weighted scores per plugin; empty when the node is rejected."""
    pod_count: int
    """The number of pods on the node, which breaks ties."""

    @property
    def total(self) -> int:
        return sum(self.scores.values())


INFEASIBLE_SCORE = -(1 << 62)
AVOIDED_NODE_PENALTY = 1 << 40
"""Outweighs every score: an avoided node is chosen only when no other is feasible."""


def schedule(
    pod: Pod | PodInfo,
    fleet: NodeSnapshot,
    scheduler_profile: SchedulerProfile = DEFAULT_SCHEDULER_PROFILE,
    *,
    avoided: Collection[str] = (),
) -> SchedulingDecision:
    """Return the best node for this pod; `avoided` nodes rank after all other feasible ones."""
    request = pod_request_for(pod, fleet)
    feasible = feasible_nodes(request, fleet, scheduler_profile)
    count = int(np.count_nonzero(feasible))
    if count == 0:
        return SchedulingDecision(request.pod_info, None, 0, 0, 0)
    total = total_scores(request, fleet, feasible, scheduler_profile)
    column, tied = best_column(_penalize_avoided(total, fleet, avoided), feasible, fleet)
    return SchedulingDecision(request.pod_info, fleet.nodes.names[column], int(total[column]), count, tied)


def _penalize_avoided(total: Array, fleet: NodeSnapshot, avoided: Collection[str]) -> Array:
    if not avoided:
        return total
    ranked = total.copy()
    ranked[[fleet.nodes.index[name] for name in avoided if name in fleet.nodes]] -= AVOIDED_NODE_PENALTY
    return ranked


def apply_decision(decision: SchedulingDecision, fleet: NodeSnapshot) -> NodeSnapshot:
    """Return the next snapshot, in which the pod runs on its node."""
    return fleet if decision.node is None else fleet.with_pod_on(decision.pod, decision.node)


def explain(
    pod: Pod | PodInfo, fleet: NodeSnapshot, scheduler_profile: SchedulerProfile = DEFAULT_SCHEDULER_PROFILE
) -> list[NodeExplanation]:
    """Return the result of the same plugins for every node, best first, rejected nodes last."""
    request = pod_request_for(pod, fleet)
    feasible = feasible_nodes(request, fleet, scheduler_profile)
    scores_by_plugin = dict(weighted_scores(request, fleet, feasible, scheduler_profile))
    found = []
    for column, rejection in node_rejections(request, fleet, range(len(fleet)), scheduler_profile):
        scores = {} if rejection else {name: int(array[column]) for name, array in scores_by_plugin.items()}
        node_info = fleet.nodes.targets[column]
        found.append(NodeExplanation(node_info.name, rejection, scores, len(node_info.pods)))
    return sorted(found, key=_explanation_order)


def _explanation_order(explanation: NodeExplanation) -> tuple[bool, int, int, str]:
    """Sort key by which `schedule` chooses: best first."""
    return explanation.rejection is not None, -explanation.total, explanation.pod_count, explanation.node


def unschedulable_message(
    pod: Pod | PodInfo, fleet: NodeSnapshot, scheduler_profile: SchedulerProfile = DEFAULT_SCHEDULER_PROFILE
) -> str:
    """Return kube-scheduler's message for an unschedulable pod: the number of nodes per reason."""
    if not len(fleet):
        return "no nodes available to schedule pods"
    counts: dict[str, int] = {}
    for _, rejection in node_rejections(pod_request_for(pod, fleet), fleet, range(len(fleet)), scheduler_profile):
        for message in messages_of(rejection.reason) if rejection else ():
            counts[message] = counts.get(message, 0) + 1
    summary = ", ".join(sorted(f"{count} {message}" for message, count in counts.items()))
    return f"0/{len(fleet)} nodes are available: {summary}."


def best_column(total: Array, feasible: Mask, fleet: NodeSnapshot) -> tuple[int, int]:
    """Return the column with the highest total and the number of ties; the fewest pods win, then the first name.

    Scores are integers, so a large node keeps its score with a few pods more. By the first name alone, pods would pile
    up on one node where kube-scheduler chooses at random.
    """
    ranked = np.where(feasible, total, INFEASIBLE_SCORE)
    column = int(ranked.argmax())
    (equal,) = (ranked == ranked[column]).nonzero()
    if len(equal) > 1:
        column = int(equal[pod_counts(fleet.nodes)[equal].argmin()])
    return column, len(equal)


def feasible_nodes(request: PodRequest, fleet: NodeSnapshot, scheduler_profile: SchedulerProfile) -> Mask:
    """Return the nodes that pass all filters, also once the pods nominated to them have arrived."""
    mask = feasible_mask(active_filters(request, scheduler_profile), request, fleet.nodes)
    for node, nominated in fleet.nominated.items():
        column = fleet.nodes.index.get(node)
        if column is not None and mask[column]:
            mask[column] = _rejection_with_nominated(request, fleet, node, nominated, scheduler_profile) is None
    return mask


def node_rejections(
    request: PodRequest, fleet: NodeSnapshot, columns: Iterable[int], scheduler_profile: SchedulerProfile
) -> Iterator[tuple[int, Rejection | None]]:
    """Yield the first rejection of each of these nodes, in the order of the filters."""
    for column, rejection in first_rejections(
        active_filters(request, scheduler_profile), request, fleet.nodes, columns
    ):
        node = fleet.nodes.names[column]
        nominated = fleet.nominated.get(node, ())
        if rejection is None and nominated:
            yield column, _rejection_with_nominated(request, fleet, node, nominated, scheduler_profile)
        else:
            yield column, rejection


def _rejection_with_nominated(
    request: PodRequest,
    fleet: NodeSnapshot,
    node: str,
    waiting: tuple[PodInfo, ...],
    scheduler_profile: SchedulerProfile,
) -> Rejection | None:
    """Return the rejection once the nominated pods of equal or higher priority run on the node."""
    ahead = [one for one in waiting if one.priority >= request.pod_info.priority and one.key != request.pod_info.key]
    if not ahead:
        return None
    with_nominated = fleet.fork()
    for one in ahead:
        with_nominated = with_nominated.with_pod_on(one, node)
    return node_rejection(pod_request_for(request.pod_info, with_nominated), with_nominated, node, scheduler_profile)


def node_rejection(
    request: PodRequest, fleet: NodeSnapshot, node: str, scheduler_profile: SchedulerProfile
) -> Rejection | None:
    """Return the first rejection of one node."""
    ((_, rejection),) = first_rejections(
        active_filters(request, scheduler_profile), request, fleet.nodes, [fleet.nodes.index[node]]
    )
    return rejection


def active_filters(request: PodRequest, scheduler_profile: SchedulerProfile) -> list[NodeFilter]:
    return [
        plugin
        for plugin in _filters_by_name(scheduler_profile.filters)
        if plugin.skips is None or not plugin.skips(request)
    ]


@cache
def _filters_by_name(filters: tuple[str, ...]) -> tuple[NodeFilter, ...]:
    return tuple(node_filters[name] for name in filters)


def resolvable_nodes(request: PodRequest, fleet: NodeSnapshot, scheduler_profile: SchedulerProfile) -> Mask:
    """Return nodes whose first rejection depends on the pods that run there; as `node_rejections`, but on arrays."""
    undecided, resolvable = np.ones(len(fleet), dtype=bool), np.zeros(len(fleet), dtype=bool)
    for plugin in active_filters(request, scheduler_profile):
        accepted = filter_mask(plugin, request, fleet.nodes)
        if np.logical_and.reduce(accepted):  # most filters reject no node of most clusters
            continue
        rejected = undecided & ~accepted
        undecided &= accepted
        if plugin.reads is not None:
            key = (plugin, "crowded", plugin.reads(request))
            resolvable |= rejected & fleet.nodes.column(key, partial(_resolvable_check, plugin, request, fleet), bool)
        else:
            is_resolvable = _resolvable_check(plugin, request, fleet)
            resolvable[
                [column for column in np.flatnonzero(rejected).tolist() if is_resolvable(fleet.nodes.targets[column])]
            ] = True
    for node, nominated in fleet.nominated.items():
        column = fleet.nodes.index.get(node)
        if column is not None and undecided[column]:
            rejection = _rejection_with_nominated(request, fleet, node, nominated, scheduler_profile)
            resolvable[column] = rejection is not None and rejection.reason.code == UNSCHEDULABLE
    return resolvable


def _resolvable_check(plugin: NodeFilter, request: PodRequest, fleet: NodeSnapshot) -> Callable[[NodeInfo], bool]:
    check = plugin.prepare(request, fleet.nodes)

    def is_resolvable(node_info: NodeInfo) -> bool:
        reason = check(node_info)
        return reason is not None and reason.code == UNSCHEDULABLE

    return is_resolvable


def total_scores(
    request: PodRequest, fleet: NodeSnapshot, feasible: Mask, scheduler_profile: SchedulerProfile
) -> Array:
    """Return the sum of all weighted scores; undefined for nodes that are not feasible."""
    total = np.zeros(len(fleet), dtype=np.int64)
    for _, array in weighted_scores(request, fleet, feasible, scheduler_profile):
        total += array
    return total


def weighted_scores(
    request: PodRequest, fleet: NodeSnapshot, feasible: Mask, scheduler_profile: SchedulerProfile
) -> Iterator[tuple[str, Array]]:
    """Yield the weighted scores of every plugin that does not skip the pod."""
    for plugin, weight in _scores_by_name(scheduler_profile.scores):
        scores = scores_of(plugin, request, fleet.nodes, feasible)
        if scores is not None:
            yield plugin.name, scores if weight == 1 else scores * weight


@cache
def _scores_by_name(scores: tuple[tuple[str, int], ...]) -> tuple[tuple[NodeScore, int], ...]:
    return tuple((node_scores[name], weight) for name, weight in scores)
