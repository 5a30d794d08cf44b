"""Pod counts by node and by topology domain, as arrays over all nodes."""

from collections.abc import Callable, Mapping

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.pods.affinity.affinity_terms import AffinityTerm, HashableSelector, WeightedTerm
from trimtab.decide.pods.node_info import NodeInfo


class TopologyCodes:
    """Integer codes for values of topology labels, so that domains are counted as arrays; codes are never removed."""

    def __init__(self) -> None:
        self._codes: dict[str, dict[str, int]] = {}

    def codes(self, key: str) -> dict[str, int]:
        return self._codes.setdefault(key, {})

    def domain_count(self, key: str) -> int:
        return len(self.codes(key))


def domain_codes(nodes: Fleet[NodeInfo], topology_codes: TopologyCodes, key: str) -> Array:
    """Return for every node the code of its value of the label `key`, or -1 without the label."""
    return nodes.column(
        ("domain", key), lambda: _domain_coder(key, topology_codes.codes(key)), np.intp, ignores_load=True
    )


def _domain_coder(key: str, codes: dict[str, int]) -> Callable[[NodeInfo], int]:
    def code(node_info: NodeInfo) -> int:
        value = node_info.labels.get(key)
        return -1 if value is None else codes.setdefault(value, len(codes))

    return code


def matching_pod_counts(nodes: Fleet[NodeInfo], terms: tuple[AffinityTerm, ...]) -> Array:
    """Return for every node how many of its pods match all these (resolved) terms."""

    def prepare() -> Callable[[NodeInfo], int]:
        return lambda node_info: sum(
            all(term.matches(one.namespace, one.labels, NO_NAMESPACES) for term in terms) for one in node_info.pods
        )

    return nodes.column(("covered", terms), prepare, np.int64)


NO_NAMESPACES: Mapping[str, Mapping[str, str]] = {}


def selected_pod_counts(nodes: Fleet[NodeInfo], namespace: str, selector: HashableSelector | None) -> Array:
    """Return for every node how many of its pods in a namespace the selector matches; terminating pods do not count."""

    if selector is None or selector.is_empty:
        return np.zeros(len(nodes), dtype=np.int64)

    def prepare() -> Callable[[NodeInfo], int]:
        return lambda node_info: sum(
            one.namespace == namespace and not one.is_terminating and selector.matches(one.labels)
            for one in node_info.pods
        )

    return nodes.column(("chosen", namespace, selector), prepare, np.int64)


def term_counts(nodes: Fleet[NodeInfo], term: WeightedTerm) -> Array:
    """Return for every node how often its pods have this term."""
    return nodes.column(
        ("carrying", term),
        lambda: lambda node_info: sum(one.affinity_terms.count(term) for one in node_info.pods),
        np.int64,
    )


def sum_per_domain(values: Array, codes: Array, size: int, among: Array | None = None) -> Array:
    """Return the sum of `values` per domain, over the nodes of `among` that have the label."""
    inside = codes >= 0 if among is None else among & (codes >= 0)
    if inside.all():
        return np.bincount(codes, weights=values, minlength=size)
    return np.bincount(codes[inside], weights=values[inside], minlength=size)


def own_domain_values(counts: Array, codes: Array) -> Array:
    """Return for each node the value of its own domain; 0 where a node has none."""
    if not len(counts):
        return np.zeros(len(codes))
    return np.where(codes >= 0, counts[codes], 0)
