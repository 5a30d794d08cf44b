"""Nodes near to pods that are liked, and far from pods that are not, are better."""

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Grade, Mask, node_score
from trimtab.decide.pods.affinity.topology_counts import at_home, carrying, covered, domains, per_domain
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.request import PodAsk

REQUIRED_WEIGHT = 1
"""What a running pod's required affinity to this pod is worth as a preference."""


def indifferent(ask: PodAsk) -> bool:
    return all(own.required for own in ask.wanted) and all(other.required and other.repels for other in ask.watched)


def liking(ask: PodAsk, hosts: Fleet[Host]) -> Array | None:
    """For every node, the sum of likes and dislikes of its domains; None when nobody has an opinion."""
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


@node_score("InterPodAffinity", sweep=grades, skips=indifferent)
def inter_pod_affinity(ask: PodAsk, hosts: Fleet[Host]) -> Grade[Host]:
    graded = grades(ask, hosts, np.ones(len(hosts), dtype=bool))
    return lambda here: 0 if graded is None else int(graded[hosts.index[here.name]])
