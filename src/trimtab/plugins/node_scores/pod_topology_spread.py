"""Prefer nodes in domains with fewer matching pods."""

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask, Scorer, node_score
from trimtab.decide.pods.affinity.spread_eligibility import counted_mask, labelled_mask
from trimtab.decide.pods.affinity.topology_counts import (
    domain_codes,
    own_domain_values,
    selected_pod_counts,
    sum_per_domain,
)
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.request import HOSTNAME, PodRequest, TopologySpread


def has_no_soft_constraint(request: PodRequest) -> bool:
    return all(constraint.is_hard for constraint in request.topology_spreads)


def spread_scores(request: PodRequest, nodes: Fleet[NodeInfo], feasible: Mask) -> Array:
    soft = [constraint for constraint in request.topology_spreads if not constraint.is_hard]
    strict = [constraint for constraint in soft if not constraint.includes_unlabelled_nodes]
    eligible = labelled_mask(request, nodes, strict)
    ranked = feasible & eligible
    weighted_counts = np.zeros(len(nodes))
    for constraint in soft:
        weighted_counts += _weighted_domain_counts(request, nodes, constraint, eligible, ranked)
    raw = np.floor(weighted_counts + 0.5).astype(np.int64)
    if not ranked.any():
        return np.zeros(len(nodes), dtype=np.int64)
    fewest, most = int(raw[ranked].min()), int(raw[ranked].max())
    settled = 100 * (most + fewest - raw) // most if most else np.full(len(nodes), 100)
    return np.where(ranked, settled, 0)


def _weighted_domain_counts(
    request: PodRequest, nodes: Fleet[NodeInfo], constraint: TopologySpread, eligible: Mask, ranked: Mask
) -> Array:
    """How full each node's domain is, weighted so that many domains count as much as few."""
    pods = selected_pod_counts(nodes, request.pod_info.namespace, constraint.selector)
    codes = domain_codes(nodes, request.topology_codes, constraint.topology_key)
    if constraint.topology_key == HOSTNAME:
        size, present = int(np.count_nonzero(ranked)), pods
    else:
        known = request.topology_codes.domain_count(constraint.topology_key)
        ranked_codes = codes[ranked]
        unlabelled = bool((ranked_codes < 0).any())  # ranked nodes without the label are one more domain
        size = int(np.count_nonzero(np.bincount(ranked_codes[ranked_codes >= 0], minlength=known))) + unlabelled
        present = own_domain_values(
            sum_per_domain(pods, codes, known, counted_mask(request, nodes, constraint, eligible)), codes
        )
    weighted: Array = np.where(codes >= 0, present * np.log(size + 2) + (constraint.max_skew - 1), 0.0)
    return weighted


@node_score("PodTopologySpread", array=spread_scores, skips=has_no_soft_constraint)
def pod_topology_spread(request: PodRequest, nodes: Fleet[NodeInfo]) -> Scorer[NodeInfo]:
    scores = spread_scores(request, nodes, np.ones(len(nodes), dtype=bool))
    return lambda node_info: int(scores[nodes.index[node_info.name]])
