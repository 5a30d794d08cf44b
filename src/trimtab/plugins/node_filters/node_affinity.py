"""Enforce nodeSelector and required node affinity."""

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.fit.node_predicates import node_requirements, required_selector, wants
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.node_rejection import hopeless
from trimtab.decide.pods.request import PodAsk

MESSAGE = "node(s) didn't match Pod's node affinity/selector"


def has_no_requirements(request: PodAsk) -> bool:
    return not request.pod.spec.node_selector and required_selector(request.pod.spec) is None


@node_filter("NodeAffinity", reads=lambda request: node_requirements(request.pod.spec), skips=has_no_requirements)
def node_affinity(request: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    wanted = wants(request.pod.spec)

    def check(node_info: Host) -> Reason | None:
        return None if wanted(node_info) else hopeless(MESSAGE)

    return check
