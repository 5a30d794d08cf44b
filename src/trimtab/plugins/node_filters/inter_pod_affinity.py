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


class Company(NamedTuple):
    """What the existing pods mean for each node."""

    near: Mask
    """All pods that this one requires are in the domain."""
    apart: Mask
    """No pod that this one must avoid is in the domain."""
    welcome: Mask
    """No pod that must avoid this one is in the domain."""


def indifferent(ask: PodAsk) -> bool:
    return not any(own.required for own in ask.wanted) and not any(other.required for other in ask.watched)


def company(ask: PodAsk, hosts: Fleet[Host]) -> Company:
    needs = tuple(own.term for own in ask.wanted if own.required and not own.repels)
    apart, welcome = np.ones(len(hosts), dtype=bool), np.ones(len(hosts), dtype=bool)
    for own in ask.wanted:
        if own.required and own.repels:
            apart &= ~_near(ask, hosts, own.term.topology_key, covered(hosts, (own.term,)))
    for other in ask.watched:
        if other.required and other.repels:
            welcome &= ~_near(ask, hosts, other.term.topology_key, carrying(hosts, other))
    return Company(_nearness(ask, hosts, needs), apart, welcome)


def _near(ask: PodAsk, hosts: Fleet[Host], key: str, pods: Array) -> Mask:
    """Nodes whose domain contains one of these pods."""
    codes = domains(hosts, ask.atlas, key)
    mask: Mask = at_home(per_domain(pods, codes, ask.atlas.size(key)), codes) > 0
    return mask


def _nearness(ask: PodAsk, hosts: Fleet[Host], needs: tuple[Term, ...]) -> Mask:
    mask = np.ones(len(hosts), dtype=bool)
    if not needs:
        return mask
    pods = covered(hosts, needs)
    labelled, somewhere = np.ones(len(hosts), dtype=bool), False
    for term in needs:
        near = _near(ask, hosts, term.topology_key, pods)
        somewhere = somewhere or bool(near.any())
        mask &= near
        labelled &= domains(hosts, ask.atlas, term.topology_key) >= 0
    if not somewhere and all(term.covers(ask.me.namespace, ask.me.labels, NO_NAMESPACES) for term in needs):
        return labelled  # the first pod of a group has no other pod to join
    return mask


def accepts(ask: PodAsk, hosts: Fleet[Host]) -> Mask:
    found = company(ask, hosts)
    mask: Mask = found.near & found.apart & found.welcome
    return mask


@node_filter("InterPodAffinity", evaluate_all=accepts, skips=indifferent)
def inter_pod_affinity(ask: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    found = company(ask, hosts)

    def check(node_info: Host) -> Reason | None:
        column = hosts.index[node_info.name]
        if not found.near[column]:
            return hopeless("node(s) didn't match pod affinity rules", "a pod it must be near to is not near")
        if not found.apart[column]:
            return crowded("node(s) didn't match pod anti-affinity rules", "a pod it must avoid is near")
        if not found.welcome[column]:
            return crowded("node(s) didn't satisfy existing pods anti-affinity rules", "a pod near must avoid it")
        return None

    return check
