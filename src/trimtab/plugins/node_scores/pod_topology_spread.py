"""Prefer nodes in domains with fewer matching pods."""

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Grade, Mask, node_score
from trimtab.decide.pods.affinity.spread_eligibility import counting, labelled
from trimtab.decide.pods.affinity.topology_counts import at_home, chosen, domains, per_domain
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.request import HOSTNAME, PodAsk, Spread


def unbothered(ask: PodAsk) -> bool:
    return all(constraint.hard for constraint in ask.spreads)


def grades(ask: PodAsk, hosts: Fleet[Host], feasible: Mask) -> Array:
    soft = [constraint for constraint in ask.spreads if not constraint.hard]
    strict = [constraint for constraint in soft if not constraint.lenient]
    eligible = labelled(ask, hosts, strict)
    ranked = feasible & eligible
    weighted_counts = np.zeros(len(hosts))
    for constraint in soft:
        weighted_counts += _crowd(ask, hosts, constraint, eligible, ranked)
    raw = np.floor(weighted_counts + 0.5).astype(np.int64)
    if not ranked.any():
        return np.zeros(len(hosts), dtype=np.int64)
    fewest, most = int(raw[ranked].min()), int(raw[ranked].max())
    settled = 100 * (most + fewest - raw) // most if most else np.full(len(hosts), 100)
    return np.where(ranked, settled, 0)


def _crowd(ask: PodAsk, hosts: Fleet[Host], constraint: Spread, eligible: Mask, ranked: Mask) -> Array:
    """How full each node's domain is, weighted so that many domains count as much as few."""
    pods = chosen(hosts, ask.me.namespace, constraint.selector)
    codes = domains(hosts, ask.atlas, constraint.topology_key)
    if constraint.topology_key == HOSTNAME:
        size, present = int(np.count_nonzero(ranked)), pods
    else:
        known = ask.atlas.size(constraint.topology_key)
        ranked_codes = codes[ranked]
        unlabelled = bool((ranked_codes < 0).any())  # ranked nodes without the label are one more domain
        size = int(np.count_nonzero(np.bincount(ranked_codes[ranked_codes >= 0], minlength=known))) + unlabelled
        present = at_home(per_domain(pods, codes, known, counting(ask, hosts, constraint, eligible)), codes)
    weighted: Array = np.where(codes >= 0, present * np.log(size + 2) + (constraint.max_skew - 1), 0.0)
    return weighted


@node_score("PodTopologySpread", evaluate_all=grades, skips=unbothered)
def pod_topology_spread(ask: PodAsk, hosts: Fleet[Host]) -> Grade[Host]:
    scores = grades(ask, hosts, np.ones(len(hosts), dtype=bool))
    return lambda node_info: int(scores[hosts.index[node_info.name]])
