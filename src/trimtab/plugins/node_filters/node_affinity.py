"""Enforce nodeSelector and required node affinity."""

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.fit.node_predicates import node_requirements, required_node_matcher, required_selector
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.node_rejection import unresolvable_reason
from trimtab.decide.pods.request import PodRequest

MESSAGE = "node(s) didn't match Pod's node affinity/selector"


def has_no_requirements(request: PodRequest) -> bool:
    return not request.pod.spec.node_selector and required_selector(request.pod.spec) is None


@node_filter(
    "NodeAffinity",
    reads=lambda request: node_requirements(request.pod.spec),
    skips=has_no_requirements,
    ignores_load=True,
)
def node_affinity(request: PodRequest, nodes: Fleet[NodeInfo]) -> Check[NodeInfo]:
    wanted = required_node_matcher(request.pod.spec)

    def check(node_info: NodeInfo) -> Reason | None:
        return None if wanted(node_info) else unresolvable_reason(MESSAGE)

    return check
