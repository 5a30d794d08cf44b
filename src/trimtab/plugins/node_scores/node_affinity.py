"""Prefer nodes that match more of the pod's preferred node affinity."""

from collections.abc import Hashable

from trimtab.api.kinds.native.pod import PreferredSchedulingTerm
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Grade, node_score
from trimtab.decide.pods.fit.node_predicates import prefers
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.normalize_scores import most_first
from trimtab.decide.pods.request import PodAsk


def preferred(ask: PodAsk) -> tuple[PreferredSchedulingTerm, ...]:
    affinity = ask.pod.spec.affinity and ask.pod.spec.affinity.node_affinity
    return affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()


def preferences(ask: PodAsk) -> Hashable:
    return preferred(ask)


def prefers_none(ask: PodAsk) -> bool:
    return not preferred(ask)


@node_score("NodeAffinity", reads=preferences, normalize=most_first, skips=prefers_none)
def node_affinity(ask: PodAsk, hosts: Fleet[Host]) -> Grade[Host]:
    terms = [(prefers(term.preference), term.weight) for term in preferred(ask)]

    def grade(node_info: Host) -> int:
        return sum(weight for matches, weight in terms if matches(node_info))

    return grade
