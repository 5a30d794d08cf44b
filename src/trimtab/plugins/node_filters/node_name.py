"""A pod with `nodeName` runs only on that node."""

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.node_rejection import hopeless
from trimtab.decide.pods.request import PodAsk

MESSAGE = "node(s) didn't match the requested node name"


def has_no_node_name(request: PodAsk) -> bool:
    return not request.pod.spec.node_name


@node_filter("NodeName", reads=lambda request: request.pod.spec.node_name, skips=has_no_node_name)
def node_name(request: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    wanted = request.pod.spec.node_name

    def check(node_info: Host) -> Reason | None:
        return None if wanted in {"", node_info.name} else hopeless(MESSAGE, f"it names {wanted}")

    return check
