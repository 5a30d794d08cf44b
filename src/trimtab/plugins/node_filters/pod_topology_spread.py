"""Enforce topology spread constraints: a pod must not raise the skew above the maximum."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Check, Mask, Reason, node_filter
from trimtab.decide.pods.affinity.spread_eligibility import counted_mask, labelled_mask
from trimtab.decide.pods.affinity.topology_counts import (
    domain_codes,
    own_domain_values,
    selected_pod_counts,
    sum_per_domain,
)
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.node_rejection import unresolvable_reason, unschedulable_reason
from trimtab.decide.pods.request import PodRequest, TopologySpread

MESSAGE = "node(s) didn't match pod topology spread constraints"


class ConstraintSkew(NamedTuple):
    """One constraint over the whole cluster."""

    constraint: TopologySpread
    codes: Array
    present: Array
    """The number of pods in each node's own domain."""
    fewest: int

    def skew(self) -> Array:
        """The skew of each node's domain over the emptiest one, with the new pod."""
        return self.present + (int(self.constraint.counts_own_pod) - self.fewest)


def has_no_hard_constraint(request: PodRequest) -> bool:
    return not any(constraint.is_hard for constraint in request.topology_spreads)


def constraint_skews(request: PodRequest, nodes: Fleet[NodeInfo]) -> Iterator[ConstraintSkew]:
    hard = [constraint for constraint in request.topology_spreads if constraint.is_hard]
    eligible = labelled_mask(request, nodes, hard)
    for constraint in hard:
        codes = domain_codes(nodes, request.topology_codes, constraint.topology_key)
        counted = counted_mask(request, nodes, constraint, eligible)
        size = request.topology_codes.domain_count(constraint.topology_key)
        pods = sum_per_domain(
            selected_pod_counts(nodes, request.pod_info.namespace, constraint.selector), codes, size, counted
        )
        inhabited = np.bincount(codes[counted], minlength=size) > 0
        enough = np.count_nonzero(inhabited) >= constraint.min_domains
        yield ConstraintSkew(
            constraint, codes, own_domain_values(pods, codes), int(pods[inhabited].min()) if enough else 0
        )


def spread_mask(request: PodRequest, nodes: Fleet[NodeInfo]) -> Mask:
    mask = np.ones(len(nodes), dtype=bool)
    for gap in constraint_skews(request, nodes):
        mask &= (gap.codes >= 0) & (gap.skew() <= gap.constraint.max_skew)
    return mask


@node_filter("PodTopologySpread", array=spread_mask, skips=has_no_hard_constraint)
def pod_topology_spread(request: PodRequest, nodes: Fleet[NodeInfo]) -> Check[NodeInfo]:
    found = list(constraint_skews(request, nodes))

    def check(node_info: NodeInfo) -> Reason | None:
        column = nodes.index[node_info.name]
        for gap in found:
            key = gap.constraint.topology_key
            if gap.codes[column] < 0:
                return unresolvable_reason(f"{MESSAGE} (missing required label)", f"the node has no label {key}")
            ahead = int(gap.skew()[column])
            if ahead > gap.constraint.max_skew:
                return unschedulable_reason(
                    MESSAGE,
                    f"{key} {node_info.labels[key]} would have skew {ahead}, maxSkew is {gap.constraint.max_skew}",
                )
        return None

    return check
