"""Keep pods off nodes with taints that they do not tolerate."""

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.fit.node_predicates import REPELLING, untolerated
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.node_rejection import hopeless
from trimtab.decide.pods.request import PodAsk


@node_filter("TaintToleration", reads=lambda request: request.pod.spec.tolerations)
def taint_toleration(request: PodAsk, hosts: Fleet[Host]) -> Check[Host]:
    tolerations = request.pod.spec.tolerations

    def check(node_info: Host) -> Reason | None:
        taint = untolerated(node_info.node.spec.taints, tolerations, REPELLING)
        if taint is None:
            return None
        words = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        return hopeless(words, f"the effect is {taint.effect}")

    return check
