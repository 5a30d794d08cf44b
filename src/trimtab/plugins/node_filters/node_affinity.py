"""Enforce nodeSelector and required node affinity."""

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.fit.node_predicates import node_requirements, required_selector, wants
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.node_rejection import hopeless
from trimtab.decide.pods.request import PodAsk

WORDS = "node(s) didn't match Pod's node affinity/selector"


def requires_nothing(ask: PodAsk) -> bool:
    return not ask.pod.spec.node_selector and required_selector(ask.pod.spec) is None


@node_filter("NodeAffinity", reads=lambda request: node_requirements(request.pod.spec), skips=requires_nothing)
def node_affinity(ask: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    wanted = wants(ask.pod.spec)

    def check(node_info: Host) -> Reason | None:
        return None if wanted(node_info) else hopeless(WORDS)

    return check
