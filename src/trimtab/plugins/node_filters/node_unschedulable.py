"""A cordoned node takes only pods that tolerate it."""

from trimtab.api.kinds.native.node import Taint
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.node_rejection import hopeless
from trimtab.decide.pods.request import PodAsk

CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def tolerates_cordon(request: PodAsk) -> bool:
    return any(toleration.tolerates(CORDONED) for toleration in request.pod.spec.tolerations)


@node_filter("NodeUnschedulable", reads=tolerates_cordon)
def node_unschedulable(request: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    tolerated = tolerates_cordon(request)

    def check(node_info: Host) -> Reason | None:
        if node_info.node.spec.unschedulable and not tolerated:
            return hopeless("node(s) were unschedulable", "the node is cordoned")
        return None

    return check
