"""Two pods of one node cannot listen on the same host port."""

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.node_rejection import crowded
from trimtab.decide.pods.request import PodAsk

MESSAGE = "node(s) didn't have free ports for the requested pod ports"


def has_no_host_ports(request: PodAsk) -> bool:
    return not request.me.demand.ports


@node_filter("NodePorts", reads=lambda request: request.me.demand.ports, skips=has_no_host_ports)
def node_ports(request: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    wanted = request.me.demand.ports

    def check(node_info: Host) -> Reason | None:
        for one in node_info.residents:
            for taken in one.demand.ports:
                if any(port.conflicts(taken) for port in wanted):
                    return crowded(MESSAGE, f"{taken.port} is taken by {one.namespace}/{one.name}")
        return None

    return check
