"""Prefer nodes near pods with preferred affinity, and away from pods with preferred anti-affinity."""

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask, Scorer, node_score
from trimtab.decide.pods.affinity.topology_counts import (
    domain_codes,
    matching_pod_counts,
    own_domain_values,
    sum_per_domain,
    term_counts,
)
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.request import PodRequest

REQUIRED_WEIGHT = 1
"""The weight of a running pod's required affinity to this pod, counted as a preference."""


def has_no_preferences(request: PodRequest) -> bool:
    return all(own.is_required for own in request.own_terms) and all(
        other.is_required and other.is_anti_affinity for other in request.matching_terms
    )


def preference_sums(request: PodRequest, nodes: Fleet[NodeInfo]) -> Array | None:
    """For every node, the sum of the preferences in its domains; None when there are none."""
    opinions = [
        (own.term.topology_key, own.weight, matching_pod_counts(nodes, (own.term,)))
        for own in request.own_terms
        if own.weight
    ]
    opinions += [
        (other.term.topology_key, other.weight or REQUIRED_WEIGHT, term_counts(nodes, other))
        for other in request.matching_terms
        if not (other.is_required and other.is_anti_affinity)
    ]
    total, voiced = np.zeros(len(nodes)), False
    for key, weight, pods in opinions:
        codes = domain_codes(nodes, request.topology_codes, key)
        counts = sum_per_domain(pods, codes, request.topology_codes.domain_count(key))
        voiced = voiced or bool(counts.any())
        total += weight * own_domain_values(counts, codes)
    return total if voiced else None


def affinity_scores(request: PodRequest, nodes: Fleet[NodeInfo], feasible: Mask) -> Array | None:
    raw = preference_sums(request, nodes)
    if raw is None or not feasible.any():
        return None
    least, most = raw[feasible].min(), raw[feasible].max()
    if least == most:
        return np.zeros(len(nodes), dtype=np.int64)
    settled: Array = (100 * ((raw - least) / (most - least))).astype(np.int64)
    return settled


@node_score("InterPodAffinity", array=affinity_scores, skips=has_no_preferences)
def inter_pod_affinity(request: PodRequest, nodes: Fleet[NodeInfo]) -> Scorer[NodeInfo]:
    scores = affinity_scores(request, nodes, np.ones(len(nodes), dtype=bool))
    return lambda node_info: 0 if scores is None else int(scores[nodes.index[node_info.name]])
