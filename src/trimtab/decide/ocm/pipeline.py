"""Decides a Placement in fixed order: cluster sets, filters, prioritizers, ranking, groups."""

from collections.abc import Hashable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterSet
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import (
    FeasibleSet,
    FilterPlugin,
    Mask,
    filter_key,
    filter_mask,
    hashable_key,
    placement_filters,
    scores_of,
)
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
from trimtab.decide.shared_totals import Totals, weighted_totals

FIRST_FILTERS = ("Predicate", "TaintToleration")
_NO_COLUMNS: Array = np.empty(0, dtype=np.intp)


class UnlistableClusterSet(Exception):
    """The clusters of a set cannot be listed: nothing can be decided and nothing may be written."""


class _EligibleClusters(NamedTuple):
    bound_sets: tuple[str, ...]
    sets: tuple[str, ...]
    mask: Mask
    size: int
    cache_key: Hashable
    """Equal for requests with the same eligible clusters."""


class _SearchPlan(NamedTuple):
    """What requests share that differ only in their clusters, the number of clusters and their groups."""

    eligible: _EligibleClusters
    feasible: FeasibleSet
    plugins: tuple[WeightedPrioritizer, ...]
    first_expiry: float
    """When the first score expires, in seconds; infinity for never."""


def decide(request: OcmRequest, snapshot: PlacementSnapshot) -> OcmDecision:
    """The decision for one Placement; raises UnlistableClusterSet."""
    eligible, found = _search(request, snapshot)
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
    namespace, wanted = request.namespace, request.spec.cluster_sets

    def compute() -> _EligibleClusters:
        bound = snapshot.bound_sets(namespace)
        names = tuple(name for name in bound if name in wanted) if wanted else bound
        sets = [snapshot.sets[name] for name in names]
        key = ("available", *[(one.name, hashable_key(one.spec.cluster_selector)) for one in sets])
        return _EligibleClusters(bound, names, *clusters_of_sets(sets, snapshot.fleet, key), key)

    return snapshot.fleet.compute_once(("eligible", snapshot.sets_revision, namespace, wanted), compute)


def clusters_of_sets(
    sets: Sequence[ManagedClusterSet], fleet: Fleet[ManagedCluster], key: Hashable
) -> tuple[Mask, int]:
    """The clusters of all these sets except terminating ones, and their number."""

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


def search(request: OcmRequest, snapshot: PlacementSnapshot) -> SearchResult:
    """The best of the eligible clusters. An invalid Placement gets none, and its status says why."""
    return _search(request, snapshot)[1]


def _search(request: OcmRequest, snapshot: PlacementSnapshot) -> tuple[_EligibleClusters, SearchResult]:
    try:
        plan = _plan_search(request, snapshot)
    except Misconfigured as fault:
        eligible = eligible_clusters(request, snapshot)
        try:
            columns = feasible_clusters(request, snapshot, eligible).columns
        except Misconfigured:
            columns = _NO_COLUMNS
        return eligible, _misconfigured(columns, fault)
    spec, feasible = request.spec, plan.feasible
    columns, wanted = feasible.columns, spec.number_of_clusters
    if wanted is not None and wanted < 0:
        return plan.eligible, _misconfigured(columns, Misconfigured("", "numberOfClusters must not be negative"))
    compute_totals = partial(total_scores, request, snapshot, feasible, plan.plugins)
    spread = spec.spread_policy.spread_constraints if request.uses_spread_policy else ()
    if spread:
        chosen = select_spread(compute_totals().by_column()[columns], columns, wanted, spread, snapshot.fleet)
    elif wanted is None or wanted >= len(columns):
        chosen = _listed_columns(feasible, snapshot.fleet)
    else:
        chosen = compute_totals().best_columns(wanted)
    warnings, scores_until = ((), None) if plan.first_expiry == inf else score_expiry(snapshot, feasible, plan.plugins)
    return plan.eligible, SearchResult(
        columns,
        chosen,
        compute_totals,
        (wanted or len(chosen)) - len(chosen),
        warnings[0] if warnings else SUCCESS_STATUS,
        warnings,
        next_toleration_end(request, snapshot.fleet) if spec.tolerations else None,
        scores_until,
    )


def _misconfigured(columns: Array, fault: Misconfigured) -> SearchResult:
    return SearchResult(columns, [], status=SearchStatus(MISCONFIGURED, fault.plugin, fault.message))


def _plan_search(request: OcmRequest, snapshot: PlacementSnapshot) -> _SearchPlan:
    """The plan of this request; raises Misconfigured. It is made once for all requests that differ in nothing it reads."""
    fleet, spec = snapshot.fleet, request.spec
    policy = hashable_key(spec.prioritizer_policy)
    filter_keys = [
        filter_key(plugin, request, fleet)
        for plugin in ordered_filters()
        if plugin.skips is None or not plugin.skips(request)
    ]

    def make() -> _SearchPlan:
        eligible = eligible_clusters(request, snapshot)
        feasible = feasible_clusters(request, snapshot, eligible)
        plugins = weighted_prioritizers(spec.prioritizer_policy)
        resources = {one.coordinate.add_on.resource_name for one in plugins if one.coordinate.add_on is not None}
        first = min([_first_score_expiry(resource, feasible, fleet) for resource in resources], default=inf)
        return _SearchPlan(eligible, feasible, plugins, first)

    if None in filter_keys:
        return make()
    key = (snapshot.sets_revision, request.namespace, spec.cluster_sets, policy, *filter_keys)
    return fleet.compute_once(key, make)


@cache
def ordered_filters() -> tuple[FilterPlugin[Any, Any], ...]:
    """Predicates, then tolerations, then the other filters."""
    others = [name for name in placement_filters.names() if name not in FIRST_FILTERS]
    return tuple(placement_filters[name] for name in (*FIRST_FILTERS, *others))


def feasible_clusters(request: OcmRequest, snapshot: PlacementSnapshot, eligible: _EligibleClusters) -> FeasibleSet:
    """The clusters that no filter rejects: computed once for all requests with the same filters and sets."""
    plugins = [plugin for plugin in ordered_filters() if plugin.skips is None or not plugin.skips(request)]
    key = (eligible.cache_key, *[filter_key(plugin, request, snapshot.fleet) for plugin in plugins])
    if None in key:
        return _filter_clusters(plugins, request, snapshot, eligible.mask, None)
    return snapshot.fleet.compute_once(
        key, lambda: _filter_clusters(plugins, request, snapshot, eligible.mask, object())
    )


def _filter_clusters(
    plugins: Iterable[FilterPlugin[Any, Any]],
    request: OcmRequest,
    snapshot: PlacementSnapshot,
    mask: Mask,
    key: Hashable | None,
) -> FeasibleSet:
    """The columns that no filter rejects. A filter that no cluster reaches is not validated."""
    for plugin in plugins:
        if not mask.any():
            break
        mask = mask & filter_mask(plugin, request, snapshot.fleet)
    return FeasibleSet(mask, np.flatnonzero(mask), key)


def _listed_columns(feasible: FeasibleSet, fleet: Fleet[ManagedCluster]) -> list[int]:
    def compute() -> list[int]:
        columns: list[int] = feasible.columns.tolist()
        return columns

    return compute() if feasible.cache_key is None else fleet.compute_once(("listed", feasible.cache_key), compute)


def score_clusters(
    one: WeightedPrioritizer, request: OcmRequest, snapshot: PlacementSnapshot, feasible: Mask
) -> Array | None:
    """The scores of one prioritizer for every column; None: none. Belongs to the cache, do not write to it."""
    query = ScoreQuery(one.coordinate, request.placed, request.decided, snapshot.decision_counts)
    return scores_of(one.plugin, query, snapshot.fleet, feasible)


def total_scores(
    request: OcmRequest, snapshot: PlacementSnapshot, feasible: FeasibleSet, plugins: tuple[WeightedPrioritizer, ...]
) -> Totals:
    """The weighted sum of the scores."""
    placed, decided, counts = request.placed, request.decided, snapshot.decision_counts
    scored = [(one.plugin, one.weight, ScoreQuery(one.coordinate, placed, decided, counts)) for one in plugins]
    return weighted_totals(scored, snapshot.fleet, feasible)


def score_expiry(
    snapshot: PlacementSnapshot, feasible: FeasibleSet, plugins: tuple[WeightedPrioritizer, ...]
) -> tuple[tuple[SearchStatus, ...], datetime | None]:
    """Warnings about expired add-on scores of feasible clusters, and when the next score expires."""
    fleet, warnings, first = snapshot.fleet, [], np.inf
    for one in plugins:
        if one.coordinate.type != ADD_ON or one.coordinate.add_on is None:
            continue
        resource, now = one.coordinate.add_on.resource_name, snapshot.now.timestamp()
        soonest = _first_score_expiry(resource, feasible, fleet)
        if soonest < now:
            ends = score_expiry_times(resource, fleet)[feasible.columns]
            expired = ends < now
            scored = "".join(f" {fleet.names[column]}/{resource}" for column in feasible.columns[expired])
            warnings.append(SearchStatus(WARNING, one.name, f"AddOnPlacementScores{scored} expired"))
            soonest = float(ends[~expired].min(initial=np.inf))
        first = min(first, soonest)
    return tuple(warnings), None if first == np.inf else datetime.fromtimestamp(first, UTC)


def _first_score_expiry(resource: str, feasible: FeasibleSet, fleet: Fleet[ManagedCluster]) -> float:
    def compute() -> float:
        return float(score_expiry_times(resource, fleet)[feasible.columns].min(initial=np.inf))

    if feasible.cache_key is None:
        return compute()
    return fleet.compute_once(("first expiry", resource, feasible.cache_key), compute)


def score_expiry_times(resource: str, fleet: Fleet[ManagedCluster]) -> Array:
    """When the scores of each cluster expire, in seconds; infinity for never and for no scores."""

    def prepare() -> Any:
        notes = fleet.external_values.get(score_key(resource), {})

        def end(cluster: ManagedCluster) -> float:
            note = notes.get(cluster.name)
            return np.inf if note is None or note.until is None else note.until.timestamp()

        return end

    return fleet.column(("scores end", resource), prepare, np.float64)
