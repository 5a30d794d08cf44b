"""Prefer nodes that match more of the pod's preferred node affinity."""

from collections.abc import Hashable

from trimtab.api.kinds.native.pod import PreferredSchedulingTerm
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Scorer, node_score
from trimtab.decide.pods.fit.node_predicates import prefers
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.normalize_scores import most_first
from trimtab.decide.pods.request import PodAsk


def preferred_terms(request: PodAsk) -> tuple[PreferredSchedulingTerm, ...]:
    affinity = request.pod.spec.affinity and request.pod.spec.affinity.node_affinity
    return affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()


def preferences(request: PodAsk) -> Hashable:
    return preferred_terms(request)


def prefers_none(request: PodAsk) -> bool:
    return not preferred_terms(request)


@node_score("NodeAffinity", reads=preferences, normalize=most_first, skips=prefers_none)
def node_affinity(request: PodAsk, hosts: Fleet[Host]) -> Scorer[Host]:
    terms = [(prefers(term.preference), term.weight) for term in preferred_terms(request)]

    def grade(node_info: Host) -> int:
        return sum(weight for matches, weight in terms if matches(node_info))

    return grade
