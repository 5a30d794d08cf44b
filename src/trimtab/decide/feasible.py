"""Which clusters the registered filters leave for a request, and why not the others."""

from collections.abc import Collection, Iterator
from functools import lru_cache

from trimtab.api.kinds.cluster import Cluster
from trimtab.decide.fleet import Fleet
from trimtab.decide.framework import (
    CachedFilters,
    Check,
    FeasibleSet,
    FilterPlugin,
    Reason,
    Rejection,
    ScorePlugin,
    every_rejection,
    filter_mask,
    filters,
    first_rejections,
    scores,
)
from trimtab.decide.request import PlacementRequest


def filters_for(request: PlacementRequest) -> tuple[FilterPlugin[PlacementRequest, Cluster], ...]:
    """All registered and enabled filters, in name order: the first rejection is the one that is reported."""
    return _filters(len(filters), request.feature_gates.disabled_plugins)


@lru_cache(maxsize=64)
def _filters(registered: int, without: frozenset[str]) -> tuple[FilterPlugin[PlacementRequest, Cluster], ...]:
    return tuple(plugin for plugin in filters.values() if plugin.name not in without)


@lru_cache(maxsize=64)
def _combined_filters(registered: int, without: frozenset[str]) -> CachedFilters[PlacementRequest, Cluster]:
    return CachedFilters((_NOT_TERMINATING, *_filters(registered, without)))


def combined_filters(request: PlacementRequest) -> CachedFilters[PlacementRequest, Cluster]:
    """All filters for this request as one; results are kept per fleet."""
    return _combined_filters(len(filters), request.feature_gates.disabled_plugins)


def feasible_clusters(request: PlacementRequest, fleet: Fleet[Cluster]) -> FeasibleSet:
    """The clusters that no filter rejects."""
    return combined_filters(request).feasible(request, fleet, columns_in_use(request, fleet))


def scores_for(request: PlacementRequest) -> tuple[ScorePlugin[PlacementRequest, Cluster], ...]:
    return _scores(len(scores), request.feature_gates.disabled_plugins)


@lru_cache(maxsize=64)
def _scores(registered: int, without: frozenset[str]) -> tuple[ScorePlugin[PlacementRequest, Cluster], ...]:
    return tuple(plugin for plugin in scores.values() if plugin.name not in without)


def is_not_terminating(cluster: Cluster) -> bool:
    return cluster.metadata.deletion_timestamp is None


def _check_not_terminating(request: PlacementRequest, fleet: Fleet[Cluster]) -> Check[Cluster]:
    return lambda cluster: None if is_not_terminating(cluster) else Reason("Deleting", "cluster(s) is being deleted")


_NOT_TERMINATING: FilterPlugin[PlacementRequest, Cluster] = FilterPlugin(
    "NotTerminating", _check_not_terminating, reads=lambda _: None
)
"""Terminating clusters are never selected; Karmada reports no reason for it, so it is not a plugin."""


def columns_in_use(request: PlacementRequest, fleet: Fleet[Cluster]) -> list[int]:
    return [fleet.index[name] for name in request.placed_clusters if name in fleet.index]


def cluster_rejections(request: PlacementRequest, fleet: Fleet[Cluster]) -> Iterator[tuple[int, Rejection | None]]:
    """For every cluster that is not terminating, the first rejection by a filter."""
    columns = [column for column, cluster in enumerate(fleet.targets) if is_not_terminating(cluster)]
    return first_rejections(filters_for(request), request, fleet, columns, frozenset(columns_in_use(request, fleet)))


def all_rejections(request: PlacementRequest, fleet: Fleet[Cluster]) -> Iterator[tuple[int, list[Rejection]]]:
    """For every cluster what each rejecting filter says, including terminating clusters."""
    return every_rejection(
        all_filters(request), request, fleet, range(len(fleet)), frozenset(columns_in_use(request, fleet))
    )


def all_filters(request: PlacementRequest) -> tuple[FilterPlugin[PlacementRequest, Cluster], ...]:
    """In the order in which they are evaluated."""
    return (_NOT_TERMINATING, *filters_for(request))


def limited_columns(request: PlacementRequest, fleet: Fleet[Cluster], placed: Collection[int]) -> list[int]:
    """Those of the clusters in use that a filter keeps from more replicas than they have."""
    masks = [filter_mask(plugin, request, fleet) for plugin in filters_for(request) if plugin.limits_placed]
    return [column for column in placed if not all(mask[column] for mask in masks)]


def limiting_rejections(
    request: PlacementRequest, fleet: Fleet[Cluster], columns: Collection[int]
) -> dict[int, Rejection]:
    """Why each of these clusters gets no more replicas than it has."""
    if not columns:
        return {}
    plugins = [plugin for plugin in filters_for(request) if plugin.limits_placed]
    found = first_rejections(plugins, request, fleet, columns)
    return {column: rejection for column, rejection in found if rejection is not None}


def no_fit_message(request: PlacementRequest, fleet: Fleet[Cluster]) -> str:
    counts: dict[str, int] = {}
    for _, objection in cluster_rejections(request, fleet):
        if objection is not None:
            counts[objection.reason.message] = counts.get(objection.reason.message, 0) + 1
    if not counts:
        return f"0/{len(fleet)} clusters are available: no cluster exists."
    reasons = sorted(f"{count} {message}" for message, count in counts.items())
    return f"0/{len(fleet)} clusters are available: {', '.join(reasons)}."
