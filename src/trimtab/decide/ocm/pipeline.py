"""From a Placement to its clusters: sets, filters, prioritizers, rank, groups; in that order and no other."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np

from trimtab.api.kinds.ocm import ManagedCluster, ManagedClusterSet
from trimtab.decide.ask import Question
from trimtab.decide.fleet import Array, Fleet
from trimtab.decide.framework import Filter, Mask, grades, placement_filters, sealed, verdicts
from trimtab.decide.ocm.answer import (
    MISCONFIGURED,
    WARNING,
    WENT_WELL,
    Answer,
    Graded,
    Misconfigured,
    Stage,
    Status,
)
from trimtab.decide.ocm.ask import ADD_ON, PlacementAsk, Weighed, weighed
from trimtab.decide.ocm.groups import grouped
from trimtab.decide.ocm.scene import Scene, score_note
from trimtab.decide.ocm.selectors import members_of
from trimtab.decide.ocm.tolerate import first_end

FIRST_FILTERS = ("Predicate", "TaintToleration")
_NOBODY: Array = np.empty(0, dtype=np.intp)


class Unlistable(Exception):
    """The clusters of a set cannot be told: nothing can be decided, nothing may be written."""


class _Eligible(NamedTuple):
    bound: tuple[str, ...]
    sets: tuple[str, ...]
    mask: Mask
    size: int


def decide(ask: PlacementAsk, scene: Scene) -> Answer:
    """The answer to one Placement; raises Unlistable."""
    eligible = eligibility(ask, scene)
    answer = search(ask, scene, eligible)
    chosen = np.sort(answer.ranked)
    groups, fault = grouped(chosen, ask.spec.decision_strategy.group_strategy, scene.fleet)
    return msgspec.structs.replace(answer, groups=groups, group_fault=fault)


def eligibility(ask: PlacementAsk, scene: Scene) -> _Eligible:
    """The clusters of all sets that the namespace is bound to and the Placement asks for."""
    bound = scene.bound(ask.namespace)
    wanted = ask.spec.cluster_sets
    names = tuple(name for name in bound if name in wanted) if wanted else bound
    mask, size = available(tuple(scene.sets[name] for name in names), scene.fleet)
    return _Eligible(bound, names, mask, size)


def available(sets: tuple[ManagedClusterSet, ...], fleet: Fleet[ManagedCluster]) -> tuple[Mask, int]:
    """Which clusters the sets have together, those that are being deleted aside; and how many."""
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


def search(ask: PlacementAsk, scene: Scene, eligible: _Eligible) -> Answer:
    """Everything but the groups. What cannot be understood is an answer without clusters."""
    stages: list[Stage] = []
    feasible = _NOBODY
    try:
        feasible = sift(ask, scene, eligible.mask, stages)
        plugins = weighed(ask.spec.prioritizer_policy)
        check_number(ask.spec.number_of_clusters)
    except Misconfigured as fault:
        return Answer(
            bound=eligible.bound,
            eligible=eligible.sets,
            available=eligible.size,
            stages=tuple(stages),
            feasible=feasible,
            ranked=_NOBODY,
            status=Status(MISCONFIGURED, fault.plugin, fault.message),
        )
    totals, graded = tally(ask, scene, feasible, plugins)
    ranked = rank(totals, feasible, ask.spec.number_of_clusters)
    expiry = scores_in_use(ask, scene, feasible, plugins)
    return Answer(
        bound=eligible.bound,
        eligible=eligible.sets,
        available=eligible.size,
        stages=tuple(stages),
        feasible=feasible,
        graded=graded,
        totals=totals,
        ranked=ranked,
        unscheduled=(ask.spec.number_of_clusters or len(ranked)) - len(ranked),
        status=expiry.warnings[0] if expiry.warnings else WENT_WELL,
        warnings=expiry.warnings,
        again_at=first_end(ask, scene.fleet),
        scores_until=expiry.first,
    )


def check_number(wanted: int | None) -> None:
    if wanted is not None and wanted < 0:
        raise Misconfigured("", "numberOfClusters must not be negative")


def in_order() -> list[Filter[Any, Any]]:
    """Predicates, then tolerations, then whatever else there is."""
    others = [name for name in placement_filters.names() if name not in FIRST_FILTERS]
    return [placement_filters[name] for name in (*FIRST_FILTERS, *others)]


def sift(ask: PlacementAsk, scene: Scene, mask: Mask, stages: list[Stage]) -> Array:
    """The columns that no filter turns down. A filter that nobody reaches is not even read."""
    columns = np.flatnonzero(mask)
    said = ""
    for plugin in in_order():
        if len(columns) and not (plugin.skips and plugin.skips(ask)):
            columns = columns[verdicts(plugin, ask, scene.fleet)[columns]]
        said = f"{said},{plugin.name}" if said else plugin.name
        stages.append(Stage(said, columns))
    return columns


def tally(
    ask: PlacementAsk, scene: Scene, feasible: Array, plugins: tuple[Weighed, ...]
) -> tuple[Array, tuple[Graded, ...]]:
    """The weighted sum of the grades of the feasible columns, and what each prioritizer said."""
    fleet = scene.fleet
    totals = np.zeros(len(feasible), dtype=np.int64)
    if not len(feasible):
        return totals, tuple(Graded(one.name, one.weight, None) for one in plugins)
    mask = np.zeros(len(fleet), dtype=bool)
    mask[feasible] = True
    graded = []
    for one in plugins:
        question = Question(one.coordinate, ask.placed, ask.decided)
        sweep = one.plugin.sweep
        said = sweep(question, fleet, mask) if sweep is not None else grades(one.plugin, question, fleet)
        if said is not None:
            totals += said[feasible] * one.weight if one.weight != 1 else said[feasible]
        graded.append(Graded(one.name, one.weight, said))
    return totals, tuple(graded)


def rank(totals: Array, feasible: Array, wanted: int | None) -> Array:
    """The best columns, as many as wanted; equal totals in the order of names."""
    count = len(feasible) if wanted is None else min(wanted, len(feasible))
    if count == 0:
        return _NOBODY
    # one number says it all: a higher total is smaller, then an earlier name is smaller
    places = np.arange(len(feasible)) - totals * len(feasible)
    if count * 4 < len(feasible):
        best = np.argpartition(places, count - 1)[:count]
        best = best[np.argsort(places[best])]
    else:
        best = np.argsort(places)[:count]
    ranked: Array = feasible[best]
    return ranked


class _Expiry(NamedTuple):
    warnings: tuple[Status, ...]
    first: datetime | None


_NO_EXPIRY = _Expiry((), None)


def scores_in_use(ask: PlacementAsk, scene: Scene, feasible: Array, plugins: tuple[Weighed, ...]) -> _Expiry:
    """Which add-ons' scores of feasible clusters have expired, and when the next will."""
    fleet, warnings, first = scene.fleet, [], np.inf
    now = scene.now.timestamp()
    for one in plugins:
        if one.coordinate.type != ADD_ON or one.coordinate.add_on is None:
            continue
        resource = one.coordinate.add_on.resource_name
        ends = ends_of(resource, fleet)[feasible]
        expired = ends < now
        if expired.any():
            clusters = [fleet.names[column] for column in feasible[expired]]
            said = "".join(f" {cluster}/{resource}" for cluster in clusters)
            warnings.append(Status(WARNING, one.name, f"AddOnPlacementScores{said} expired"))
        first = min(first, float(np.min(ends, initial=np.inf, where=~expired)))
    if not warnings and first == np.inf:
        return _NO_EXPIRY
    return _Expiry(tuple(warnings), None if first == np.inf else datetime.fromtimestamp(first, UTC))


def ends_of(resource: str, fleet: Fleet[ManagedCluster]) -> Array:
    """When the scores of each cluster expire, in seconds; infinity for never and for none."""

    def prepare() -> Any:
        notes = fleet.notes.get(score_note(resource), {})

        def end(cluster: ManagedCluster) -> float:
            note = notes.get(cluster.name)
            return np.inf if note is None or note.until is None else note.until.timestamp()

        return end

    return fleet.column(("scores end", resource), prepare, np.float64)
