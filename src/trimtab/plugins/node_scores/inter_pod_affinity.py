"""Prefer nodes near pods with preferred affinity, and away from pods with preferred anti-affinity."""

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask, Scorer, node_score
from trimtab.decide.pods.affinity.topology_counts import at_home, carrying, covered, domains, per_domain
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.request import PodAsk

REQUIRED_WEIGHT = 1
"""The weight of a running pod's required affinity to this pod, counted as a preference."""


def has_no_preferences(request: PodAsk) -> bool:
    return all(own.required for own in request.wanted) and all(
        other.required and other.repels for other in request.watched
    )


def preference_sums(request: PodAsk, hosts: Fleet[Host]) -> Array | None:
    """For every node, the sum of the preferences in its domains; None when there are none."""
    opinions = [
        (own.term.topology_key, own.weight, covered(hosts, (own.term,))) for own in request.wanted if own.weight
    ]
    opinions += [
        (other.term.topology_key, other.weight or REQUIRED_WEIGHT, carrying(hosts, other))
        for other in request.watched
        if not (other.required and other.repels)
    ]
    total, voiced = np.zeros(len(hosts)), False
    for key, weight, pods in opinions:
        codes = domains(hosts, request.atlas, key)
        counts = per_domain(pods, codes, request.atlas.size(key))
        voiced = voiced or bool(counts.any())
        total += weight * at_home(counts, codes)
    return total if voiced else None


def affinity_scores(request: PodAsk, hosts: Fleet[Host], feasible: Mask) -> Array | None:
    raw = preference_sums(request, hosts)
    if raw is None or not feasible.any():
        return None
    least, most = raw[feasible].min(), raw[feasible].max()
    if least == most:
        return np.zeros(len(hosts), dtype=np.int64)
    settled: Array = (100 * ((raw - least) / (most - least))).astype(np.int64)
    return settled


@node_score("InterPodAffinity", evaluate_all=affinity_scores, skips=has_no_preferences)
def inter_pod_affinity(request: PodAsk, hosts: Fleet[Host]) -> Scorer[Host]:
    scores = affinity_scores(request, hosts, np.ones(len(hosts), dtype=bool))
    return lambda node_info: 0 if scores is None else int(scores[hosts.index[node_info.name]])
