"""Prefer nodes near pods with preferred affinity, and away from pods with preferred anti-affinity."""

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Grade, Mask, node_score
from trimtab.decide.pods.affinity.topology_counts import at_home, carrying, covered, domains, per_domain
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.request import PodAsk

REQUIRED_WEIGHT = 1
"""The weight of a running pod's required affinity to this pod, counted as a preference."""


def indifferent(ask: PodAsk) -> bool:
    return all(own.required for own in ask.wanted) and all(other.required and other.repels for other in ask.watched)


def liking(ask: PodAsk, hosts: Fleet[Host]) -> Array | None:
    """For every node, the sum of the preferences in its domains; None when there are none."""
    opinions = [(own.term.topology_key, own.weight, covered(hosts, (own.term,))) for own in ask.wanted if own.weight]
    opinions += [
        (other.term.topology_key, other.weight or REQUIRED_WEIGHT, carrying(hosts, other))
        for other in ask.watched
        if not (other.required and other.repels)
    ]
    total, voiced = np.zeros(len(hosts)), False
    for key, weight, pods in opinions:
        codes = domains(hosts, ask.atlas, key)
        counts = per_domain(pods, codes, ask.atlas.size(key))
        voiced = voiced or bool(counts.any())
        total += weight * at_home(counts, codes)
    return total if voiced else None


def grades(ask: PodAsk, hosts: Fleet[Host], feasible: Mask) -> Array | None:
    raw = liking(ask, hosts)
    if raw is None or not feasible.any():
        return None
    least, most = raw[feasible].min(), raw[feasible].max()
    if least == most:
        return np.zeros(len(hosts), dtype=np.int64)
    settled: Array = (100 * ((raw - least) / (most - least))).astype(np.int64)
    return settled


@node_score("InterPodAffinity", evaluate_all=grades, skips=indifferent)
def inter_pod_affinity(ask: PodAsk, hosts: Fleet[Host]) -> Grade[Host]:
    scores = grades(ask, hosts, np.ones(len(hosts), dtype=bool))
    return lambda node_info: 0 if scores is None else int(scores[hosts.index[node_info.name]])
