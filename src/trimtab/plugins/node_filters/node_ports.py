"""Two pods of one node cannot listen on the same host port."""

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.node_rejection import unschedulable_reason
from trimtab.decide.pods.request import PodRequest

MESSAGE = "node(s) didn't have free ports for the requested pod ports"


def has_no_host_ports(request: PodRequest) -> bool:
    return not request.pod_info.resources.ports


@node_filter("NodePorts", reads=lambda request: request.pod_info.resources.ports, skips=has_no_host_ports)
def node_ports(request: PodRequest, nodes: Fleet[NodeInfo]) -> Check[NodeInfo]:
    wanted = request.pod_info.resources.ports

    def check(node_info: NodeInfo) -> Reason | None:
        for one in node_info.pods:
            for taken in one.resources.ports:
                if any(port.conflicts(taken) for port in wanted):
                    return unschedulable_reason(MESSAGE, f"{taken.port} is used by {one.namespace}/{one.name}")
        return None

    return check
