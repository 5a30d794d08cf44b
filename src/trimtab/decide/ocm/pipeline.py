"""Decides a Placement in fixed order: cluster sets, filters, prioritizers, ranking, groups."""

from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterSet
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Filter, Mask, grades, placement_filters, sealed, verdicts
from trimtab.decide.ocm.decision import MISCONFIGURED, WARNING, WENT_WELL, Answer, Found, Misconfigured, Status
from trimtab.decide.ocm.groups import grouped
from trimtab.decide.ocm.request import ADD_ON, PlacementAsk, Weighed, weighed
from trimtab.decide.ocm.selectors import members_of
from trimtab.decide.ocm.snapshot import Scene, score_note
from trimtab.decide.ocm.spread import spread_out
from trimtab.decide.ocm.tolerations import first_end
from trimtab.decide.request import Question

FIRST_FILTERS = ("Predicate", "TaintToleration")
_NOBODY: Array = np.empty(0, dtype=np.intp)


class Unlistable(Exception):
    """The clusters of a set cannot be listed: nothing can be decided and nothing may be written."""


class _Eligible(NamedTuple):
    bound: tuple[str, ...]
    sets: tuple[str, ...]
    mask: Mask
    size: int


def decide(ask: PlacementAsk, scene: Scene) -> Answer:
    """The decision for one Placement; raises UnlistableClusterSet."""
    eligible = eligibility(ask, scene)
    found = search(ask, scene, eligible.mask)
    strategy = ask.spec.decision_strategy.group_strategy
    return Answer(
        bound=eligible.bound,
        eligible=eligible.sets,
        available=eligible.size,
        found=found,
        order=found.ranked if ask.by_score else found.chosen,
        grouping=lambda order: grouped(order, strategy, scene.fleet),
    )


def eligibility(ask: PlacementAsk, scene: Scene) -> _Eligible:
    """The clusters of all sets that the namespace is bound to and the Placement selects."""
    bound = scene.bound(ask.namespace)
    wanted = ask.spec.cluster_sets
    names = tuple(name for name in bound if name in wanted) if wanted else bound
    mask, size = available(tuple(scene.sets[name] for name in names), scene.fleet)
    return _Eligible(bound, names, mask, size)


def available(sets: tuple[ManagedClusterSet, ...], fleet: Fleet[ManagedCluster]) -> tuple[Mask, int]:
    """The clusters of all these sets except terminating ones, and their number."""
    key = ("available", *[(cluster_set.name, sealed(cluster_set.spec.cluster_selector)) for cluster_set in sets])

    def compute() -> tuple[Mask, int]:
        mask = np.zeros(len(fleet), dtype=bool)
        for cluster_set in sets:
            mask |= membership(cluster_set, fleet)
        mask &= fleet.column("staying", lambda: _staying, bool)
        return mask, int(np.count_nonzero(mask))

    return fleet.derived(key, compute)


def membership(cluster_set: ManagedClusterSet, fleet: Fleet[ManagedCluster]) -> Mask:
    key = ("member", cluster_set.name, sealed(cluster_set.spec.cluster_selector))
    try:
        return fleet.column(key, lambda: members_of(cluster_set), bool)
    except Misconfigured as fault:
        raise Unlistable(f'failed to get clusters from ClusterSet "{cluster_set.name}": {fault.message}') from fault


def _staying(cluster: ManagedCluster) -> bool:
    return cluster.metadata.deletion_timestamp is None


def search(ask: PlacementAsk, scene: Scene, mask: Mask) -> Found:
    """The best of these columns. An invalid Placement gets no clusters, and its status says why."""
    feasible = _NOBODY
    try:
        mask = sift(ask, scene, mask)
        feasible = np.flatnonzero(mask)
        plugins = weighed(ask.spec.prioritizer_policy)
        check_number(ask.spec.number_of_clusters)
    except Misconfigured as fault:
        return Found(feasible, _NOBODY, status=Status(MISCONFIGURED, fault.plugin, fault.message))
    totals = tally(ask, scene, mask, plugins)[feasible]
    spread = ask.spec.spread_policy.spread_constraints if ask.spreads else ()
    chosen = (
        spread_out(totals, feasible, ask.spec.number_of_clusters, spread, scene.fleet)
        if spread
        else best(totals, feasible, ask.spec.number_of_clusters)
    )
    warnings, scores_until = expiry(scene, feasible, plugins)
    return Found(
        feasible,
        chosen,
        totals,
        (ask.spec.number_of_clusters or len(chosen)) - len(chosen),
        warnings[0] if warnings else WENT_WELL,
        warnings,
        first_end(ask, scene.fleet),
        scores_until,
    )


def check_number(wanted: int | None) -> None:
    if wanted is not None and wanted < 0:
        raise Misconfigured("", "numberOfClusters must not be negative")


@cache
def in_order() -> tuple[Filter[Any, Any], ...]:
    """Predicates, then tolerations, then the other filters."""
    others = [name for name in placement_filters.names() if name not in FIRST_FILTERS]
    return tuple(placement_filters[name] for name in (*FIRST_FILTERS, *others))


def sift(ask: PlacementAsk, scene: Scene, mask: Mask) -> Mask:
    """The columns that no filter rejects. A filter that no cluster reaches is not validated."""
    for plugin in in_order():
        if plugin.skips is not None and plugin.skips(ask):
            continue
        if not mask.any():
            break
        mask = mask & verdicts(plugin, ask, scene.fleet)
    return mask


def graded(one: Weighed, ask: PlacementAsk, scene: Scene, feasible: Mask) -> Array | None:
    """The scores of one prioritizer for every column; None: none. Belongs to the cache, do not write to it."""
    query = Question(one.coordinate, ask.placed, ask.decided, scene.popularity)
    if one.plugin.sweep is not None:
        return one.plugin.sweep(query, scene.fleet, feasible)
    return grades(one.plugin, query, scene.fleet)


def tally(ask: PlacementAsk, scene: Scene, feasible: Mask, plugins: tuple[Weighed, ...]) -> Array:
    """The weighted sum of the scores, for every column."""
    totals = np.zeros(len(scene.fleet), dtype=np.int64)
    for one in plugins:
        scored = graded(one, ask, scene, feasible)
        if scored is not None:
            totals += scored if one.weight == 1 else scored * one.weight
    return totals


def best(totals: Array, feasible: Array, wanted: int | None) -> Array:
    """The best of the feasible columns, in name order; of equal totals the earlier names are better."""
    size = len(feasible)
    if wanted is None or wanted >= size:
        return feasible
    if wanted == 0:
        return _NOBODY
    # one sort key: a higher total is smaller, then an earlier name is smaller
    merits = np.arange(size) - totals * size
    chosen: Array = feasible[np.sort(np.partition(merits, wanted - 1)[:wanted] % size)]
    return chosen


def expiry(scene: Scene, feasible: Array, plugins: tuple[Weighed, ...]) -> tuple[tuple[Status, ...], datetime | None]:
    """Warnings about expired add-on scores of feasible clusters, and when the next score expires."""
    fleet, warnings, first = scene.fleet, [], np.inf
    for one in plugins:
        if one.coordinate.type != ADD_ON or one.coordinate.add_on is None:
            continue
        resource, now = one.coordinate.add_on.resource_name, scene.now.timestamp()
        ends = ends_of(resource, fleet)[feasible]
        soonest = float(ends.min(initial=np.inf))
        if soonest < now:
            expired = ends < now
            scored = "".join(f" {fleet.names[column]}/{resource}" for column in feasible[expired])
            warnings.append(Status(WARNING, one.name, f"AddOnPlacementScores{scored} expired"))
            soonest = float(ends[~expired].min(initial=np.inf))
        first = min(first, soonest)
    return tuple(warnings), None if first == np.inf else datetime.fromtimestamp(first, UTC)


def ends_of(resource: str, fleet: Fleet[ManagedCluster]) -> Array:
    """When the scores of each cluster expire, in seconds; infinity for never and for no scores."""

    def prepare() -> Any:
        notes = fleet.notes.get(score_note(resource), {})

        def end(cluster: ManagedCluster) -> float:
            note = notes.get(cluster.name)
            return np.inf if note is None or note.until is None else note.until.timestamp()

        return end

    return fleet.column(("scores end", resource), prepare, np.float64)
