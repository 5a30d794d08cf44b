"""Enforce required affinity and anti-affinity between pods."""

from typing import NamedTuple

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Check, Mask, Reason, node_filter
from trimtab.decide.pods.affinity.affinity_terms import Term
from trimtab.decide.pods.affinity.topology_counts import NO_NAMESPACES, at_home, carrying, covered, domains, per_domain
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.node_rejection import crowded, hopeless
from trimtab.decide.pods.request import PodAsk


class AffinityMasks(NamedTuple):
    """What the existing pods mean for each node."""

    has_required: Mask
    """All pods that this one requires are in the domain."""
    avoids_repelled: Mask
    """No pod that this one must avoid is in the domain."""
    is_not_repelled: Mask
    """No pod that must avoid this one is in the domain."""


def has_no_requirements(request: PodAsk) -> bool:
    return not any(own.required for own in request.wanted) and not any(other.required for other in request.watched)


def affinity_masks(request: PodAsk, hosts: Fleet[Host]) -> AffinityMasks:
    needs = tuple(own.term for own in request.wanted if own.required and not own.repels)
    apart, welcome = np.ones(len(hosts), dtype=bool), np.ones(len(hosts), dtype=bool)
    for own in request.wanted:
        if own.required and own.repels:
            apart &= ~_near(request, hosts, own.term.topology_key, covered(hosts, (own.term,)))
    for other in request.watched:
        if other.required and other.repels:
            welcome &= ~_near(request, hosts, other.term.topology_key, carrying(hosts, other))
    return AffinityMasks(_required_affinity_mask(request, hosts, needs), apart, welcome)


def _near(request: PodAsk, hosts: Fleet[Host], key: str, pods: Array) -> Mask:
    """Nodes whose domain contains one of these pods."""
    codes = domains(hosts, request.atlas, key)
    mask: Mask = at_home(per_domain(pods, codes, request.atlas.size(key)), codes) > 0
    return mask


def _required_affinity_mask(request: PodAsk, hosts: Fleet[Host], needs: tuple[Term, ...]) -> Mask:
    mask = np.ones(len(hosts), dtype=bool)
    if not needs:
        return mask
    pods = covered(hosts, needs)
    labelled, somewhere = np.ones(len(hosts), dtype=bool), False
    for term in needs:
        near = _near(request, hosts, term.topology_key, pods)
        somewhere = somewhere or bool(near.any())
        mask &= near
        labelled &= domains(hosts, request.atlas, term.topology_key) >= 0
    if not somewhere and all(term.covers(request.me.namespace, request.me.labels, NO_NAMESPACES) for term in needs):
        return labelled  # the first pod of a group has no other pod to join
    return mask


def affinity_mask(request: PodAsk, hosts: Fleet[Host]) -> Mask:
    found = affinity_masks(request, hosts)
    mask: Mask = found.has_required & found.avoids_repelled & found.is_not_repelled
    return mask


@node_filter("InterPodAffinity", evaluate_all=affinity_mask, skips=has_no_requirements)
def inter_pod_affinity(request: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    found = affinity_masks(request, hosts)

    def check(node_info: Host) -> Reason | None:
        column = hosts.index[node_info.name]
        if not found.has_required[column]:
            return hopeless("node(s) didn't match pod affinity rules", "a pod it must be near to is not near")
        if not found.avoids_repelled[column]:
            return crowded("node(s) didn't match pod anti-affinity rules", "a pod it must avoid is near")
        if not found.is_not_repelled[column]:
            return crowded("node(s) didn't satisfy existing pods anti-affinity rules", "a pod near must avoid it")
        return None

    return check
