"""Enforce required affinity and anti-affinity between pods."""

from typing import NamedTuple

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Check, Mask, Reason, node_filter
from trimtab.decide.pods.affinity.affinity_terms import AffinityTerm
from trimtab.decide.pods.affinity.topology_counts import (
    NO_NAMESPACES,
    domain_codes,
    matching_pod_counts,
    own_domain_values,
    sum_per_domain,
    term_counts,
)
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.node_rejection import unresolvable_reason, unschedulable_reason
from trimtab.decide.pods.request import PodRequest


class AffinityMasks(NamedTuple):
    """What the existing pods mean for each node."""

    has_required: Mask
    """All pods that this one requires are in the domain."""
    avoids_repelled: Mask
    """No pod that this one must avoid is in the domain."""
    is_not_repelled: Mask
    """No pod that must avoid this one is in the domain."""


def has_no_requirements(request: PodRequest) -> bool:
    return not any(term.is_required for term in (*request.own_terms, *request.matching_terms))


def affinity_masks(request: PodRequest, nodes: Fleet[NodeInfo]) -> AffinityMasks:
    needs = tuple(own.term for own in request.own_terms if own.is_required and not own.is_anti_affinity)
    apart, welcome = np.ones(len(nodes), dtype=bool), np.ones(len(nodes), dtype=bool)
    for own in request.own_terms:
        if own.is_required and own.is_anti_affinity:
            apart &= ~_near(request, nodes, own.term.topology_key, matching_pod_counts(nodes, (own.term,)))
    for other in request.matching_terms:
        if other.is_required and other.is_anti_affinity:
            welcome &= ~_near(request, nodes, other.term.topology_key, term_counts(nodes, other))
    return AffinityMasks(_required_affinity_mask(request, nodes, needs), apart, welcome)


def _near(request: PodRequest, nodes: Fleet[NodeInfo], key: str, pods: Array) -> Mask:
    """Nodes whose domain contains one of these pods."""
    codes = domain_codes(nodes, request.topology_codes, key)
    mask: Mask = own_domain_values(sum_per_domain(pods, codes, request.topology_codes.domain_count(key)), codes) > 0
    return mask


def _required_affinity_mask(request: PodRequest, nodes: Fleet[NodeInfo], needs: tuple[AffinityTerm, ...]) -> Mask:
    mask = np.ones(len(nodes), dtype=bool)
    if not needs:
        return mask
    pods = matching_pod_counts(nodes, needs)
    labelled, somewhere = np.ones(len(nodes), dtype=bool), False
    for term in needs:
        near = _near(request, nodes, term.topology_key, pods)
        somewhere = somewhere or bool(near.any())
        mask &= near
        labelled &= domain_codes(nodes, request.topology_codes, term.topology_key) >= 0
    if not somewhere and all(
        term.matches(request.pod_info.namespace, request.pod_info.labels, NO_NAMESPACES) for term in needs
    ):
        return labelled  # the first pod of a group has no other pod to join
    return mask


def affinity_mask(request: PodRequest, nodes: Fleet[NodeInfo]) -> Mask:
    found = affinity_masks(request, nodes)
    mask: Mask = found.has_required & found.avoids_repelled & found.is_not_repelled
    return mask


@node_filter("InterPodAffinity", array=affinity_mask, skips=has_no_requirements)
def inter_pod_affinity(request: PodRequest, nodes: Fleet[NodeInfo]) -> Check[NodeInfo]:
    found = affinity_masks(request, nodes)

    def check(node_info: NodeInfo) -> Reason | None:
        column = nodes.index[node_info.name]
        if not found.has_required[column]:
            return unresolvable_reason(
                "node(s) didn't match pod affinity rules", "no pod that it requires is in the topology domain"
            )
        if not found.avoids_repelled[column]:
            return unschedulable_reason(
                "node(s) didn't match pod anti-affinity rules", "a pod that it must avoid is in the topology domain"
            )
        if not found.is_not_repelled[column]:
            return unschedulable_reason(
                "node(s) didn't satisfy existing pods anti-affinity rules", "a pod in the topology domain must avoid it"
            )
        return None

    return check
