"""Which nodes count when pods are spread over topology domains."""

from collections.abc import Callable, Sequence

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask
from trimtab.decide.pods.affinity.topology_counts import domain_codes
from trimtab.decide.pods.fit.node_predicates import (
    REPELLING,
    first_untolerated_taint,
    node_requirements,
    required_node_matcher,
)
from trimtab.decide.pods.node_info import NodeInfo
from trimtab.decide.pods.request import PodRequest, TopologySpread


def labelled_mask(request: PodRequest, nodes: Fleet[NodeInfo], constraints: Sequence[TopologySpread]) -> Mask:
    """Return nodes that have every label these constraints spread over."""
    mask = np.ones(len(nodes), dtype=bool)
    for constraint in constraints:
        mask &= domain_codes(nodes, request.topology_codes, constraint.topology_key) >= 0
    return mask


def counted_mask(request: PodRequest, nodes: Fleet[NodeInfo], constraint: TopologySpread, among: Mask) -> Mask:
    """Return the nodes of `among` whose pods this constraint counts."""
    spec = request.pod.spec
    if constraint.honours_affinity and (spec.node_selector or spec.affinity):
        among = among & _node_mask(nodes, ("wanted", node_requirements(spec)), lambda: required_node_matcher(spec))
    if constraint.honours_taints:
        among = among & _node_mask(nodes, ("tolerated", spec.tolerations), lambda: _toleration_check(request))
    return among


def _node_mask(
    nodes: Fleet[NodeInfo], key: tuple[object, ...], prepare: Callable[[], Callable[[NodeInfo], bool]]
) -> Array:
    return nodes.column(key, prepare, bool, ignores_load=True)


def _toleration_check(request: PodRequest) -> Callable[[NodeInfo], bool]:
    tolerations = request.pod.spec.tolerations
    return lambda node_info: first_untolerated_taint(node_info.node.spec.taints, tolerations, REPELLING) is None
