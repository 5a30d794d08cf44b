"""Spreads clusters over regions, zones or other topology domains: the best ones that keep the domains even."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.ocm_placement import SpreadConstraintsTerm
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.ocm.selectors import claims_of

STRICT = "DoNotSchedule"
NO_DOMAIN = ""
"""The domain of a cluster without the label or claim."""


def topology_domains(term: SpreadConstraintsTerm, fleet: Fleet[ManagedCluster]) -> Array:
    """The domain of every column."""

    def prepare() -> Any:
        by_claim = term.topology_key_type == "Claim"
        return lambda cluster: (claims_of(cluster) if by_claim else cluster.metadata.labels).get(
            term.topology_key, NO_DOMAIN
        )

    return fleet.column(("domain", term.topology_key_type, term.topology_key), prepare, object)


def select_spread(
    totals: Array,
    feasible: Array,
    wanted: int | None,
    terms: Sequence[SpreadConstraintsTerm],
    fleet: Fleet[ManagedCluster],
) -> list[int]:
    """The chosen columns in name order; fewer than wanted when a strict constraint allows no more."""
    ranked = np.lexsort((np.arange(len(feasible)), -totals))
    queues: dict[tuple[str, ...], list[int]] = {}
    named = [topology_domains(term, fleet)[feasible] for term in terms]
    for place in ranked.tolist():
        queues.setdefault(tuple(column[place] for column in named), []).append(place)
    order = {place: rank for rank, place in enumerate(ranked.tolist())}
    counts = [{domain[number]: 0 for domain in queues if domain[number] != NO_DOMAIN} for number in range(len(terms))]
    chosen: list[int] = []
    while (wanted is None or len(chosen) < wanted) and queues:
        allowed = [queue for queue in queues if _is_allowed(queue, terms, counts)]
        if not allowed:
            break
        # of those that no strict constraint excludes: the smallest soft violation, then the best
        queue = min(allowed, key=lambda one: (_soft_violation(one, terms, counts), order[queues[one][0]]))
        chosen.append(queues[queue].pop(0))
        for number, domain in enumerate(queue):
            if domain != NO_DOMAIN:
                counts[number][domain] += 1
        if not queues[queue]:
            del queues[queue]
    found: list[int] = feasible[sorted(chosen)].tolist()
    return found


def _skew(domain: str, count: dict[str, int]) -> int:
    """The skew of this domain over the emptiest one, with one more cluster in it."""
    return count[domain] + 1 - min(count.values())


def _is_allowed(queue: tuple[str, ...], terms: Sequence[SpreadConstraintsTerm], counts: list[dict[str, int]]) -> bool:
    return all(
        domain != NO_DOMAIN and _skew(domain, count) <= term.max_skew
        for domain, term, count in zip(queue, terms, counts, strict=True)
        if term.when_unsatisfiable == STRICT
    )


def _soft_violation(
    queue: tuple[str, ...], terms: Sequence[SpreadConstraintsTerm], counts: list[dict[str, int]]
) -> int:
    """By how much the soft constraints would be violated."""
    return sum(
        len(count) + 1 if domain == NO_DOMAIN else max(0, _skew(domain, count) - term.max_skew)
        for domain, term, count in zip(queue, terms, counts, strict=True)
        if term.when_unsatisfiable != STRICT
    )
