"""Which nodes count when pods are spread over topology domains."""

from collections.abc import Callable, Sequence

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Mask
from trimtab.decide.pods.affinity.topology_counts import domains
from trimtab.decide.pods.fit.node_predicates import REPELLING, node_requirements, untolerated, wants
from trimtab.decide.pods.node_info import Host
from trimtab.decide.pods.request import PodAsk, Spread


def labelled(ask: PodAsk, hosts: Fleet[Host], constraints: Sequence[Spread]) -> Mask:
    """Return nodes that have every label these constraints spread over."""
    mask = np.ones(len(hosts), dtype=bool)
    for constraint in constraints:
        mask &= domains(hosts, ask.atlas, constraint.topology_key) >= 0
    return mask


def counting(ask: PodAsk, hosts: Fleet[Host], constraint: Spread, among: Mask) -> Mask:
    """Return the nodes of `among` whose pods this constraint counts."""
    spec = ask.pod.spec
    if constraint.honours_affinity and (spec.node_selector or spec.affinity):
        among = among & _column(hosts, ("wanted", node_requirements(spec)), lambda: wants(spec))
    if constraint.honours_taints:
        among = among & _column(hosts, ("tolerated", spec.tolerations), lambda: _tolerates(ask))
    return among


def _column(hosts: Fleet[Host], key: tuple[object, ...], prepare: Callable[[], Callable[[Host], bool]]) -> Array:
    return hosts.column(key, prepare, bool)


def _tolerates(ask: PodAsk) -> Callable[[Host], bool]:
    tolerations = ask.pod.spec.tolerations
    return lambda node_info: untolerated(node_info.node.spec.taints, tolerations, REPELLING) is None
