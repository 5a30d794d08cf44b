"""Decides a Placement in fixed order: cluster sets, filters, prioritizers, ranking, groups."""

from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterSet
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import FilterPlugin, Mask, filter_mask, hashable_key, placement_filters, scores_of
from trimtab.decide.ocm.decision import (
    MISCONFIGURED,
    SUCCESS_STATUS,
    WARNING,
    Misconfigured,
    OcmDecision,
    SearchResult,
    SearchStatus,
)
from trimtab.decide.ocm.groups import split_into_groups
from trimtab.decide.ocm.request import ADD_ON, OcmRequest, WeightedPrioritizer, weighted_prioritizers
from trimtab.decide.ocm.selectors import set_matcher
from trimtab.decide.ocm.snapshot import PlacementSnapshot, score_key
from trimtab.decide.ocm.spread import select_spread
from trimtab.decide.ocm.tolerations import next_toleration_end
from trimtab.decide.request import ScoreQuery

FIRST_FILTERS = ("Predicate", "TaintToleration")
_NO_COLUMNS: Array = np.empty(0, dtype=np.intp)


class UnlistableClusterSet(Exception):
    """The clusters of a set cannot be listed: nothing can be decided and nothing may be written."""


class _EligibleClusters(NamedTuple):
    bound_sets: tuple[str, ...]
    sets: tuple[str, ...]
    mask: Mask
    size: int


def decide(request: OcmRequest, snapshot: PlacementSnapshot) -> OcmDecision:
    """The decision for one Placement; raises UnlistableClusterSet."""
    eligible = eligible_clusters(request, snapshot)
    found = search(request, snapshot, eligible.mask)
    strategy = request.spec.decision_strategy.group_strategy
    return OcmDecision(
        bound_sets=eligible.bound_sets,
        eligible_sets=eligible.sets,
        available_clusters=eligible.size,
        result=found,
        order=found.by_rank if request.by_score else found.chosen,
        group_columns=lambda order: split_into_groups(order, strategy, snapshot.fleet),
    )


def eligible_clusters(request: OcmRequest, snapshot: PlacementSnapshot) -> _EligibleClusters:
    """The clusters of all sets that the namespace is bound to and the Placement selects."""
    bound = snapshot.bound_sets(request.namespace)
    wanted = request.spec.cluster_sets
    names = tuple(name for name in bound if name in wanted) if wanted else bound
    mask, size = clusters_of_sets(tuple(snapshot.sets[name] for name in names), snapshot.fleet)
    return _EligibleClusters(bound, names, mask, size)


def clusters_of_sets(sets: tuple[ManagedClusterSet, ...], fleet: Fleet[ManagedCluster]) -> tuple[Mask, int]:
    """The clusters of all these sets except terminating ones, and their number."""
    key = ("available", *[(cluster_set.name, hashable_key(cluster_set.spec.cluster_selector)) for cluster_set in sets])

    def compute() -> tuple[Mask, int]:
        mask = np.zeros(len(fleet), dtype=bool)
        for cluster_set in sets:
            mask |= set_members(cluster_set, fleet)
        mask &= fleet.column("staying", lambda: _is_not_terminating, bool)
        return mask, int(np.count_nonzero(mask))

    return fleet.compute_once(key, compute)


def set_members(cluster_set: ManagedClusterSet, fleet: Fleet[ManagedCluster]) -> Mask:
    key = ("member", cluster_set.name, hashable_key(cluster_set.spec.cluster_selector))
    try:
        return fleet.column(key, lambda: set_matcher(cluster_set), bool)
    except Misconfigured as fault:
        raise UnlistableClusterSet(
            f'failed to get clusters from ClusterSet "{cluster_set.name}": {fault.message}'
        ) from fault


def _is_not_terminating(cluster: ManagedCluster) -> bool:
    return cluster.metadata.deletion_timestamp is None


def search(request: OcmRequest, snapshot: PlacementSnapshot, mask: Mask) -> SearchResult:
    """The best of these columns. An invalid Placement gets no clusters, and its status says why."""
    feasible = _NO_COLUMNS
    try:
        mask = filter_clusters(request, snapshot, mask)
        feasible = np.flatnonzero(mask)
        plugins = weighted_prioritizers(request.spec.prioritizer_policy)
        validate_number_of_clusters(request.spec.number_of_clusters)
    except Misconfigured as fault:
        return SearchResult(feasible, _NO_COLUMNS, status=SearchStatus(MISCONFIGURED, fault.plugin, fault.message))
    totals = total_scores(request, snapshot, mask, plugins)[feasible]
    spread = request.spec.spread_policy.spread_constraints if request.uses_spread_policy else ()
    chosen = (
        select_spread(totals, feasible, request.spec.number_of_clusters, spread, snapshot.fleet)
        if spread
        else select_best(totals, feasible, request.spec.number_of_clusters)
    )
    warnings, scores_until = score_expiry(snapshot, feasible, plugins)
    return SearchResult(
        feasible,
        chosen,
        totals,
        (request.spec.number_of_clusters or len(chosen)) - len(chosen),
        warnings[0] if warnings else SUCCESS_STATUS,
        warnings,
        next_toleration_end(request, snapshot.fleet),
        scores_until,
    )


def validate_number_of_clusters(wanted: int | None) -> None:
    if wanted is not None and wanted < 0:
        raise Misconfigured("", "numberOfClusters must not be negative")


@cache
def ordered_filters() -> tuple[FilterPlugin[Any, Any], ...]:
    """Predicates, then tolerations, then the other filters."""
    others = [name for name in placement_filters.names() if name not in FIRST_FILTERS]
    return tuple(placement_filters[name] for name in (*FIRST_FILTERS, *others))


def filter_clusters(request: OcmRequest, snapshot: PlacementSnapshot, mask: Mask) -> Mask:
    """The columns that no filter rejects. A filter that no cluster reaches is not validated."""
    for plugin in ordered_filters():
        if plugin.skips is not None and plugin.skips(request):
            continue
        if not mask.any():
            break
        mask = mask & filter_mask(plugin, request, snapshot.fleet)
    return mask


def score_clusters(
    one: WeightedPrioritizer, request: OcmRequest, snapshot: PlacementSnapshot, feasible: Mask
) -> Array | None:
    """The scores of one prioritizer for every column; None: none. Belongs to the cache, do not write to it."""
    query = ScoreQuery(one.coordinate, request.placed, request.decided, snapshot.decision_counts)
    return scores_of(one.plugin, query, snapshot.fleet, feasible)


def total_scores(
    request: OcmRequest, snapshot: PlacementSnapshot, feasible: Mask, plugins: tuple[WeightedPrioritizer, ...]
) -> Array:
    """The weighted sum of the scores, for every column."""
    totals = np.zeros(len(snapshot.fleet), dtype=np.int64)
    for one in plugins:
        scored = score_clusters(one, request, snapshot, feasible)
        if scored is not None:
            totals += scored if one.weight == 1 else scored * one.weight
    return totals


def select_best(totals: Array, feasible: Array, wanted: int | None) -> Array:
    """The best of the feasible columns, in name order; of equal totals the earlier names are better."""
    size = len(feasible)
    if wanted is None or wanted >= size:
        return feasible
    if wanted == 0:
        return _NO_COLUMNS
    # one sort key: a higher total is smaller, then an earlier name is smaller
    merits = np.arange(size) - totals * size
    chosen: Array = feasible[np.sort(np.partition(merits, wanted - 1)[:wanted] % size)]
    return chosen


def score_expiry(
    snapshot: PlacementSnapshot, feasible: Array, plugins: tuple[WeightedPrioritizer, ...]
) -> tuple[tuple[SearchStatus, ...], datetime | None]:
    """Warnings about expired add-on scores of feasible clusters, and when the next score expires."""
    fleet, warnings, first = snapshot.fleet, [], np.inf
    for one in plugins:
        if one.coordinate.type != ADD_ON or one.coordinate.add_on is None:
            continue
        resource, now = one.coordinate.add_on.resource_name, snapshot.now.timestamp()
        ends = score_expiry_times(resource, fleet)[feasible]
        soonest = float(ends.min(initial=np.inf))
        if soonest < now:
            expired = ends < now
            scored = "".join(f" {fleet.names[column]}/{resource}" for column in feasible[expired])
            warnings.append(SearchStatus(WARNING, one.name, f"AddOnPlacementScores{scored} expired"))
            soonest = float(ends[~expired].min(initial=np.inf))
        first = min(first, soonest)
    return tuple(warnings), None if first == np.inf else datetime.fromtimestamp(first, UTC)


def score_expiry_times(resource: str, fleet: Fleet[ManagedCluster]) -> Array:
    """When the scores of each cluster expire, in seconds; infinity for never and for no scores."""

    def prepare() -> Any:
        notes = fleet.external_values.get(score_key(resource), {})

        def end(cluster: ManagedCluster) -> float:
            note = notes.get(cluster.name)
            return np.inf if note is None or note.until is None else note.until.timestamp()

        return end

    return fleet.column(("scores end", resource), prepare, np.float64)
