"""Enforce topology spread constraints: a pod must not raise the skew above the maximum."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Check, Mask, Reason, node_filter
from trimtab.decide.pods.affinity.spread_eligibility import counting, labelled
from trimtab.decide.pods.affinity.topology_counts import at_home, chosen, domains, per_domain
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.node_rejection import crowded, hopeless
from trimtab.decide.pods.request import PodAsk, Spread

WORDS = "node(s) didn't match pod topology spread constraints"


class Gap(NamedTuple):
    """One constraint over the whole cluster."""

    constraint: Spread
    codes: Array
    present: Array
    """The number of pods in each node's own domain."""
    fewest: int

    def ahead(self) -> Array:
        """The skew of each node's domain over the emptiest one, with the new pod."""
        return self.present + (int(self.constraint.counts_itself) - self.fewest)


def unbound(ask: PodAsk) -> bool:
    return not any(constraint.hard for constraint in ask.spreads)


def gaps(ask: PodAsk, hosts: Fleet[Host]) -> Iterator[Gap]:
    hard = [constraint for constraint in ask.spreads if constraint.hard]
    eligible = labelled(ask, hosts, hard)
    for constraint in hard:
        codes = domains(hosts, ask.atlas, constraint.topology_key)
        counted = counting(ask, hosts, constraint, eligible)
        size = ask.atlas.size(constraint.topology_key)
        pods = per_domain(chosen(hosts, ask.me.namespace, constraint.selector), codes, size, counted)
        inhabited = np.bincount(codes[counted], minlength=size) > 0
        enough = np.count_nonzero(inhabited) >= constraint.min_domains
        yield Gap(constraint, codes, at_home(pods, codes), int(pods[inhabited].min()) if enough else 0)


def spreads_well(ask: PodAsk, hosts: Fleet[Host]) -> Mask:
    mask = np.ones(len(hosts), dtype=bool)
    for gap in gaps(ask, hosts):
        mask &= (gap.codes >= 0) & (gap.ahead() <= gap.constraint.max_skew)
    return mask


@node_filter("PodTopologySpread", evaluate_all=spreads_well, skips=unbound)
def pod_topology_spread(ask: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    found = list(gaps(ask, hosts))

    def check(node_info: Host) -> Reason | None:
        column = hosts.index[node_info.name]
        for gap in found:
            key = gap.constraint.topology_key
            if gap.codes[column] < 0:
                return hopeless(f"{WORDS} (missing required label)", f"it has no {key}")
            ahead = int(gap.ahead()[column])
            if ahead > gap.constraint.max_skew:
                return crowded(
                    WORDS, f"{key} {node_info.labels[key]} would be {ahead} ahead, allowed is {gap.constraint.max_skew}"
                )
        return None

    return check
