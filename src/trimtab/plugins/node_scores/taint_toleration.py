"""Prefer nodes with fewer PreferNoSchedule taints that the pod does not tolerate."""

from collections.abc import Hashable

from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import Scorer, node_score
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.normalize_scores import normalize_scores_reversed
from trimtab.decide.pods.request import PodRequest

AVOIDED = "PreferNoSchedule"


def soft_tolerations(request: PodRequest) -> Hashable:
    return tuple(toleration for toleration in request.pod.spec.tolerations if toleration.effect in {"", AVOIDED})


@node_score("TaintToleration", reads=soft_tolerations, normalize=normalize_scores_reversed, ignores_load=True)
def taint_toleration(request: PodRequest, nodes: Fleet[NodeInfo]) -> Scorer[NodeInfo]:
    tolerations = [toleration for toleration in request.pod.spec.tolerations if toleration.effect in {"", AVOIDED}]

    def grade(node_info: NodeInfo) -> int:
        taints = node_info.node.spec.taints
        return sum(
            taint.effect == AVOIDED and not any(toleration.tolerates(taint) for toleration in tolerations)
            for taint in taints
        )

    return grade
