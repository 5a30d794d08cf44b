"""A pod with `nodeName` runs only on that node."""

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.node_rejection import unresolvable_reason
from trimtab.decide.pods.request import PodRequest

MESSAGE = "node(s) didn't match the requested node name"


def has_no_node_name(request: PodRequest) -> bool:
    return not request.pod.spec.node_name


@node_filter("NodeName", reads=lambda request: request.pod.spec.node_name, skips=has_no_node_name, ignores_load=True)
def node_name(request: PodRequest, nodes: Fleet[NodeInfo]) -> Check[NodeInfo]:
    wanted = request.pod.spec.node_name

    def check(node_info: NodeInfo) -> Reason | None:
        return None if wanted in {"", node_info.name} else unresolvable_reason(MESSAGE, f"the pod requests {wanted}")

    return check
