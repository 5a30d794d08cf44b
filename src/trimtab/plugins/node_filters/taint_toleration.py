"""Keep pods off nodes with taints that they do not tolerate."""

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Check, Reason, node_filter
from trimtab.decide.pods.fit.node_predicates import REPELLING, first_untolerated_taint
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.node_rejection import unresolvable_reason
from trimtab.decide.pods.request import PodRequest


@node_filter("TaintToleration", reads=lambda request: request.pod.spec.tolerations, ignores_load=True)
def taint_toleration(request: PodRequest, nodes: Fleet[NodeInfo]) -> Check[NodeInfo]:
    tolerations = request.pod.spec.tolerations

    def check(node_info: NodeInfo) -> Reason | None:
        taint = first_untolerated_taint(node_info.node.spec.taints, tolerations, REPELLING)
        if taint is None:
            return None
        words = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
        return unresolvable_reason(words, f"the effect is {taint.effect}")

    return check
