"""The gain of moving a pod, by the scheduler's own scores, so that rescheduler and scheduler agree."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from trimtab.decide.fleet import Array
from trimtab.decide.framework import Mask, node_scores
from trimtab.decide.pods.node_info import NodeInfo, PodInfo
from trimtab.decide.pods.node_snapshot import NodeSnapshot
from trimtab.decide.pods.request import PodRequest, pod_request_for
from trimtab.decide.pods.schedule import (
    DEFAULT_SCHEDULER_PROFILE,
    SchedulerProfile,
    active_filters,
    best_column,
    feasible_nodes,
    weighted_scores,
)

FULL_SCORE = 100
MOST_ALLOCATED = "NodeResourcesMostAllocated"
MOST_ALLOCATED_PROFILE = SchedulerProfile(
    scores=tuple(
        (MOST_ALLOCATED if name == "NodeResourcesFit" else name, weight)
        for name, weight in DEFAULT_SCHEDULER_PROFILE.scores
    )
)
"""A scheduler that packs nodes: kube-scheduler with the strategy MostAllocated."""
SCORE_WEIGHTS = dict((*DEFAULT_SCHEDULER_PROFILE.scores, *MOST_ALLOCATED_PROFILE.scores))
OCCUPANCY_SCORES = ("NodeResourcesFit", MOST_ALLOCATED, "NodeResourcesBalancedAllocation")
"""Scores that a pod without affinity to others changes only on its own node."""


PREFERENCE_SCORES = ("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity")
"""Scores for the preferences of a pod, not for how full nodes are."""


class MoveForecast(NamedTuple):
    """Where a pod would go, and its gain in percent of the range of the scores that differ between nodes."""

    node: str | None
    gain: float = 0.0
    gain_by_score: dict[str, float] = {}
    """The gain per score plugin that differs between nodes, each in percent of its own range."""
    feasible: int = 0
    prefers_current: bool = False
    """The scheduler would choose the current node again."""

    def gain_of(self, names: Collection[str]) -> float:
        """The gain by these plugins alone, with the scheduler's weights."""
        counted = [name for name in names if name in self.gain_by_score]
        scale = sum(SCORE_WEIGHTS[name] for name in counted)
        return sum(SCORE_WEIGHTS[name] * self.gain_by_score[name] for name in counted) / scale if scale else 0.0


def without_pod(pod: PodInfo, fleet: NodeSnapshot) -> NodeSnapshot:
    """The fleet after the pod has left."""
    node = pod.pod.spec.node_name
    node_info = fleet.get(node)
    if node_info is None:
        return fleet
    known = next((one for one in node_info.pods if one.key == pod.key), None)
    return fleet.without_pods([known], node) if known is not None else fleet


def without_node(pod: PodInfo) -> PodInfo:
    """The replacement: the same pod without a node."""
    return pod._replace(pod=pod.pod.but(spec=pod.pod.spec.but(node_name="")))


class TrialFleet:
    """A fleet on which moves are tried; only what changed is computed again, as long as changes follow each other."""

    def __init__(self, fleet: NodeSnapshot, profile: SchedulerProfile = DEFAULT_SCHEDULER_PROFILE) -> None:
        """`profile` is that of the scheduler that will place the replacements."""
        self.fleet, self._profile = fleet.fork(), profile
        self._columns: dict[Collection[str], Array] = {}

    def move(self, pod: PodInfo, target: str | None) -> None:
        """Move the pod to another node, or remove it."""
        self.fleet = without_pod(pod, self.fleet)
        if target is not None:
            self.fleet = self.fleet.with_pod_on(without_node(pod), target)

    def best_move(
        self, pod: PodInfo, excluded: frozenset[str] = frozenset(), avoided: Collection[str] = ()
    ) -> MoveForecast:
        """The best node other than the current one by the scheduler's scores, compared with the current one."""
        node = pod.pod.spec.node_name
        node_info = self.fleet.get(node)
        known = next((one for one in node_info.pods if one.key == pod.key), None) if node_info is not None else None
        excluded_columns = self._columns_of(excluded)
        request = pod_request_for(without_node(pod), self.fleet)
        if node_info is None or known is None:
            return _forecast(self._profile, request, self.fleet, excluded_columns, avoided, None)
        if not (request.own_terms or request.matching_terms or request.topology_spreads):
            return _forecast(
                self._profile, request, self.fleet, excluded_columns, avoided, node_info.without_pods([known])
            )
        rest = self.fleet.without_pods([known], node)
        lifted = rest.nodes.targets[rest.nodes.index[node]]
        found = _forecast(
            self._profile, pod_request_for(request.pod_info, rest), rest, excluded_columns, avoided, lifted
        )
        self.fleet = rest.with_pod_on(known, node)
        return found

    def _columns_of(self, excluded: frozenset[str]) -> Array:
        """The set of nodes does not change during planning, so their columns stay valid."""
        if excluded not in self._columns:
            index = self.fleet.nodes.index
            self._columns[excluded] = np.array([index[name] for name in excluded if name in index], dtype=np.intp)
        return self._columns[excluded]


def _forecast(
    taste: SchedulerProfile,
    request: PodRequest,
    fleet: NodeSnapshot,
    excluded_columns: Array,
    avoided: Collection[str],
    lifted: NodeInfo | None,
) -> MoveForecast:
    """`lifted` is the pod's node without it; `fleet` may still contain the pod when it has no affinity to others."""
    names = fleet.nodes.index
    feasible: Mask = feasible_nodes(request, fleet, taste)
    others = feasible.copy()
    others[excluded_columns] = False
    if lifted is not None:
        others[names[lifted.name]] = False
    count = int(np.count_nonzero(others))
    if not count:
        return MoveForecast(None)
    column, marks = _choose_node(taste, request, fleet, feasible, _not_avoided(others, names, avoided), lifted)
    if lifted is None:
        return MoveForecast(fleet.nodes.names[column], FULL_SCORE, {}, count)
    node_info = {name: int(array[names[lifted.name]]) for name, array in marks.items()}
    for name in OCCUPANCY_SCORES:
        if name in marks:
            node_info[name] = SCORE_WEIGHTS[name] * int(node_scores[name].prepare(request, fleet.nodes)(lifted))
    scores_better = sum(node_info.values()) > sum(int(one[column]) for one in marks.values())
    stays = scores_better and (bool(feasible[names[lifted.name]]) or _can_return(request, fleet, lifted, taste))
    feasible[names[lifted.name]] = False  # its scores may include the pod itself
    elsewhere = np.flatnonzero(feasible)
    telling = [name for name, array in marks.items() if _has_difference(array[elsewhere], node_info[name])]
    scale = FULL_SCORE * sum(SCORE_WEIGHTS[name] for name in telling)
    better = {name: int(array[column]) - node_info[name] for name, array in marks.items()}
    parts = {name: better[name] / SCORE_WEIGHTS[name] for name in telling}
    gain = FULL_SCORE * sum(better.values()) / scale if scale else 0.0
    return MoveForecast(fleet.nodes.names[column], gain, parts, count, stays)


def _can_return(request: PodRequest, fleet: NodeSnapshot, node: NodeInfo, profile: SchedulerProfile) -> bool:
    """Whether the node accepts the pod again; the mask of the fleet may count the pod twice there."""
    if fleet.nominated.get(node.name):
        return False
    return all(plugin.prepare(request, fleet.nodes)(node) is None for plugin in active_filters(request, profile))


def _not_avoided(others: Mask, names: Mapping[str, int], avoided: Collection[str]) -> Mask:
    """The nodes that are not on an avoid list, unless there are no others."""
    if not avoided:
        return others
    liked = others.copy()
    liked[[names[name] for name in avoided if name in names]] = False
    return liked if liked.any() else others


def _choose_node(
    taste: SchedulerProfile,
    request: PodRequest,
    fleet: NodeSnapshot,
    feasible: Mask,
    among: Mask,
    lifted: NodeInfo | None,
) -> tuple[int, dict[str, Array]]:
    """The scheduler's choice among these, and all scores; the current node is scored even if it is not feasible."""
    compared = feasible
    if lifted is not None and not feasible[fleet.nodes.index[lifted.name]]:
        compared = feasible.copy()
        compared[fleet.nodes.index[lifted.name]] = True
    marks = dict(weighted_scores(request, fleet, compared, taste))
    total: Array = np.sum(list(marks.values()), axis=0) if marks else np.zeros(len(fleet), dtype=np.int64)
    column, _ = best_column(total, among, fleet)
    return column, marks


def _has_difference(marks: Array, own: int) -> bool:
    return int(marks.min()) != own or int(marks.max()) != own
