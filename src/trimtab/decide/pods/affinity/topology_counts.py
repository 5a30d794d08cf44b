"""Pod counts by node and by topology domain, as arrays over all nodes."""

from collections.abc import Callable, Mapping

import numpy as np

from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.pods.affinity.affinity_terms import Carried, Choice, Term
from trimtab.decide.pods.node_info import Host


class Atlas:
    """Integer codes for values of topology labels, so that domains are counted as arrays; codes are never removed."""

    def __init__(self) -> None:
        self._codes: dict[str, dict[str, int]] = {}

    def codes(self, key: str) -> dict[str, int]:
        return self._codes.setdefault(key, {})

    def size(self, key: str) -> int:
        return len(self.codes(key))


def domains(hosts: Fleet[Host], atlas: Atlas, key: str) -> Array:
    """Return for every node the code of its value of the label `key`, or -1 without the label."""
    return hosts.column(("domain", key), lambda: _coder(key, atlas.codes(key)), np.intp)


def _coder(key: str, codes: dict[str, int]) -> Callable[[Host], int]:
    def code(node_info: Host) -> int:
        value = node_info.labels.get(key)
        return -1 if value is None else codes.setdefault(value, len(codes))

    return code


def covered(hosts: Fleet[Host], terms: tuple[Term, ...]) -> Array:
    """Return for every node how many of its pods match all these (resolved) terms."""

    def prepare() -> Callable[[Host], int]:
        return lambda node_info: sum(
            all(term.covers(one.namespace, one.labels, NO_NAMESPACES) for term in terms) for one in node_info.residents
        )

    return hosts.column(("covered", terms), prepare, np.int64)


NO_NAMESPACES: Mapping[str, Mapping[str, str]] = {}


def chosen(hosts: Fleet[Host], namespace: str, selector: Choice | None) -> Array:
    """Return for every node how many of its pods in a namespace the selector matches; terminating pods do not count."""

    if selector is None or selector.empty:
        return np.zeros(len(hosts), dtype=np.int64)

    def prepare() -> Callable[[Host], int]:
        return lambda node_info: sum(
            one.namespace == namespace and not one.terminating and selector.matches(one.labels)
            for one in node_info.residents
        )

    return hosts.column(("chosen", namespace, selector), prepare, np.int64)


def carrying(hosts: Fleet[Host], term: Carried) -> Array:
    """Return for every node how often its pods have this term."""
    return hosts.column(
        ("carrying", term),
        lambda: lambda node_info: sum(one.carried.count(term) for one in node_info.residents),
        np.int64,
    )


def per_domain(values: Array, codes: Array, size: int, among: Array | None = None) -> Array:
    """Return the sum of `values` per domain, over the nodes of `among` that have the label."""
    inside = codes >= 0 if among is None else among & (codes >= 0)
    if inside.all():
        return np.bincount(codes, weights=values, minlength=size)
    return np.bincount(codes[inside], weights=values[inside], minlength=size)


def at_home(counts: Array, codes: Array) -> Array:
    """Return for each node the value of its own domain; 0 where a node has none."""
    if not len(counts):
        return np.zeros(len(codes))
    return np.where(codes >= 0, counts[codes], 0)
