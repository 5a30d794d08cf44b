"""Prefer nodes in domains with fewer matching pods."""

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask, Scorer, node_score
from trimtab.decide.pods.affinity.spread_eligibility import counting, labelled
from trimtab.decide.pods.affinity.topology_counts import at_home, chosen, domains, per_domain
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.request import HOSTNAME, PodAsk, Spread


def has_no_soft_constraint(request: PodAsk) -> bool:
    return all(constraint.hard for constraint in request.spreads)


def spread_scores(request: PodAsk, hosts: Fleet[Host], feasible: Mask) -> Array:
    soft = [constraint for constraint in request.spreads if not constraint.hard]
    strict = [constraint for constraint in soft if not constraint.lenient]
    eligible = labelled(request, hosts, strict)
    ranked = feasible & eligible
    weighted_counts = np.zeros(len(hosts))
    for constraint in soft:
        weighted_counts += _weighted_domain_counts(request, hosts, constraint, eligible, ranked)
    raw = np.floor(weighted_counts + 0.5).astype(np.int64)
    if not ranked.any():
        return np.zeros(len(hosts), dtype=np.int64)
    fewest, most = int(raw[ranked].min()), int(raw[ranked].max())
    settled = 100 * (most + fewest - raw) // most if most else np.full(len(hosts), 100)
    return np.where(ranked, settled, 0)


def _weighted_domain_counts(
    request: PodAsk, hosts: Fleet[Host], constraint: Spread, eligible: Mask, ranked: Mask
) -> Array:
    """How full each node's domain is, weighted so that many domains count as much as few."""
    pods = chosen(hosts, request.me.namespace, constraint.selector)
    codes = domains(hosts, request.atlas, constraint.topology_key)
    if constraint.topology_key == HOSTNAME:
        size, present = int(np.count_nonzero(ranked)), pods
    else:
        known = request.atlas.size(constraint.topology_key)
        ranked_codes = codes[ranked]
        unlabelled = bool((ranked_codes < 0).any())  # ranked nodes without the label are one more domain
        size = int(np.count_nonzero(np.bincount(ranked_codes[ranked_codes >= 0], minlength=known))) + unlabelled
        present = at_home(per_domain(pods, codes, known, counting(request, hosts, constraint, eligible)), codes)
    weighted: Array = np.where(codes >= 0, present * np.log(size + 2) + (constraint.max_skew - 1), 0.0)
    return weighted


@node_score("PodTopologySpread", evaluate_all=spread_scores, skips=has_no_soft_constraint)
def pod_topology_spread(request: PodAsk, hosts: Fleet[Host]) -> Scorer[Host]:
    scores = spread_scores(request, hosts, np.ones(len(hosts), dtype=bool))
    return lambda node_info: int(scores[hosts.index[node_info.name]])
