"""Clusters spread over regions, zones or whatever a label or a claim tells: the best ones that keep the numbers even."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trimtab.api.kinds.ocm import ManagedCluster, SpreadConstraintsTerm
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.ocm.selectors import claims_of

STRICT = "DoNotSchedule"
NOWHERE = ""
"""The domain of a cluster that does not say where it is."""


def domains(term: SpreadConstraintsTerm, fleet: Fleet[ManagedCluster]) -> Array:
    """The domain of every column."""

    def prepare() -> Any:
        by_claim = term.topology_key_type == "Claim"
        return lambda cluster: (claims_of(cluster) if by_claim else cluster.metadata.labels).get(
            term.topology_key, NOWHERE
        )

    return fleet.column(("domain", term.topology_key_type, term.topology_key), prepare, object)


def spread_out(
    totals: Array,
    feasible: Array,
    wanted: int | None,
    terms: Sequence[SpreadConstraintsTerm],
    fleet: Fleet[ManagedCluster],
) -> Array:
    """The chosen columns in the order of names; fewer than wanted where a strict constraint allows no more."""
    ranked = np.lexsort((np.arange(len(feasible)), -totals))
    lines: dict[tuple[str, ...], list[int]] = {}
    named = [domains(term, fleet)[feasible] for term in terms]
    for place in ranked.tolist():
        lines.setdefault(tuple(column[place] for column in named), []).append(place)
    order = {place: rank for rank, place in enumerate(ranked.tolist())}
    counts = [{domain[number]: 0 for domain in lines if domain[number] != NOWHERE} for number in range(len(terms))]
    chosen: list[int] = []
    while (wanted is None or len(chosen) < wanted) and lines:
        allowed = [line for line in lines if _is_allowed(line, terms, counts)]
        if not allowed:
            break
        # of those that no strict constraint forbids: the least uneven, then the best
        line = min(allowed, key=lambda one: (_unevenness(one, terms, counts), order[lines[one][0]]))
        chosen.append(lines[line].pop(0))
        for number, domain in enumerate(line):
            if domain != NOWHERE:
                counts[number][domain] += 1
        if not lines[line]:
            del lines[line]
    found: Array = feasible[np.sort(np.array(chosen, dtype=np.intp))]
    return found


def _skew(domain: str, count: dict[str, int]) -> int:
    """How many more this domain would have than the emptiest one, with one more cluster in it."""
    return count[domain] + 1 - min(count.values())


def _is_allowed(line: tuple[str, ...], terms: Sequence[SpreadConstraintsTerm], counts: list[dict[str, int]]) -> bool:
    return all(
        domain != NOWHERE and _skew(domain, count) <= term.max_skew
        for domain, term, count in zip(line, terms, counts, strict=True)
        if term.when_unsatisfiable == STRICT
    )


def _unevenness(line: tuple[str, ...], terms: Sequence[SpreadConstraintsTerm], counts: list[dict[str, int]]) -> int:
    """By how much the constraints that may be broken would be."""
    return sum(
        len(count) + 1 if domain == NOWHERE else max(0, _skew(domain, count) - term.max_skew)
        for domain, term, count in zip(line, terms, counts, strict=True)
        if term.when_unsatisfiable != STRICT
    )
