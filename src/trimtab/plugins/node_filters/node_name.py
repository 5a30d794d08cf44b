"""A pod with `nodeName` runs only on that node."""

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.node_rejection import hopeless
from trimtab.decide.pods.request import PodAsk

WORDS = "node(s) didn't match the requested node name"


def names_none(ask: PodAsk) -> bool:
    return not ask.pod.spec.node_name


@node_filter("NodeName", reads=lambda request: request.pod.spec.node_name, skips=names_none)
def node_name(ask: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    wanted = ask.pod.spec.node_name

    def check(node_info: Host) -> Reason | None:
        return None if wanted in {"", node_info.name} else hopeless(WORDS, f"it names {wanted}")

    return check
