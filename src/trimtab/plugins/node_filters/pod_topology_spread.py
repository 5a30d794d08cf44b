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

MESSAGE = "node(s) didn't match pod topology spread constraints"


class ConstraintSkew(NamedTuple):
    """One constraint over the whole cluster."""

    constraint: Spread
    codes: Array
    present: Array
    """The number of pods in each node's own domain."""
    fewest: int

    def skew(self) -> Array:
        """The skew of each node's domain over the emptiest one, with the new pod."""
        return self.present + (int(self.constraint.counts_itself) - self.fewest)


def has_no_hard_constraint(request: PodAsk) -> bool:
    return not any(constraint.hard for constraint in request.spreads)


def constraint_skews(request: PodAsk, hosts: Fleet[Host]) -> Iterator[ConstraintSkew]:
    hard = [constraint for constraint in request.spreads if constraint.hard]
    eligible = labelled(request, hosts, hard)
    for constraint in hard:
        codes = domains(hosts, request.atlas, constraint.topology_key)
        counted = counting(request, hosts, constraint, eligible)
        size = request.atlas.size(constraint.topology_key)
        pods = per_domain(chosen(hosts, request.me.namespace, constraint.selector), codes, size, counted)
        inhabited = np.bincount(codes[counted], minlength=size) > 0
        enough = np.count_nonzero(inhabited) >= constraint.min_domains
        yield ConstraintSkew(constraint, codes, at_home(pods, codes), int(pods[inhabited].min()) if enough else 0)


def spread_mask(request: PodAsk, hosts: Fleet[Host]) -> Mask:
    mask = np.ones(len(hosts), dtype=bool)
    for gap in constraint_skews(request, hosts):
        mask &= (gap.codes >= 0) & (gap.skew() <= gap.constraint.max_skew)
    return mask


@node_filter("PodTopologySpread", evaluate_all=spread_mask, skips=has_no_hard_constraint)
def pod_topology_spread(request: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    found = list(constraint_skews(request, hosts))

    def check(node_info: Host) -> Reason | None:
        column = hosts.index[node_info.name]
        for gap in found:
            key = gap.constraint.topology_key
            if gap.codes[column] < 0:
                return hopeless(f"{MESSAGE} (missing required label)", f"it has no {key}")
            ahead = int(gap.skew()[column])
            if ahead > gap.constraint.max_skew:
                return crowded(
                    MESSAGE,
                    f"{key} {node_info.labels[key]} would be {ahead} ahead, allowed is {gap.constraint.max_skew}",
                )
        return None

    return check
