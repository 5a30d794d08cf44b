"""A cordoned node takes only pods that tolerate it."""

from trimtab.api.kinds.native.node import Taint
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.node_rejection import unresolvable_reason
from trimtab.decide.pods.request import PodRequest

CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def tolerates_cordon(request: PodRequest) -> bool:
    return any(toleration.tolerates(CORDONED) for toleration in request.pod.spec.tolerations)


@node_filter("NodeUnschedulable", reads=tolerates_cordon, ignores_load=True)
def node_unschedulable(request: PodRequest, nodes: Fleet[NodeInfo]) -> Check[NodeInfo]:
    def check(node_info: NodeInfo) -> Reason | None:
        if node_info.node.spec.unschedulable and not tolerates_cordon(request):  # few nodes are cordoned
            return unresolvable_reason("node(s) were unschedulable", "the node is cordoned")
        return None

    return check
