"""Prefer nodes that match more of the pod's preferred node affinity."""

from collections.abc import Hashable

from trimtab.api.kinds.native.pod import PreferredSchedulingTerm
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Scorer, node_score
from trimtab.decide.pods.fit.node_predicates import preferred_node_matcher
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.normalize_scores import normalize_scores
from trimtab.decide.pods.request import PodRequest


def preferred_terms(request: PodRequest) -> tuple[PreferredSchedulingTerm, ...]:
    affinity = request.pod.spec.affinity and request.pod.spec.affinity.node_affinity
    return affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()


def preferences(request: PodRequest) -> Hashable:
    return preferred_terms(request)


def prefers_none(request: PodRequest) -> bool:
    return not preferred_terms(request)


@node_score("NodeAffinity", reads=preferences, normalize=normalize_scores, skips=prefers_none, ignores_load=True)
def node_affinity(request: PodRequest, nodes: Fleet[NodeInfo]) -> Scorer[NodeInfo]:
    terms = [(preferred_node_matcher(term.preference), term.weight) for term in preferred_terms(request)]

    def grade(node_info: NodeInfo) -> int:
        return sum(weight for matches, weight in terms if matches(node_info))

    return grade
