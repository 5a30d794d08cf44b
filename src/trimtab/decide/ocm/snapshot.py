"""All input of Placement decisions, updated object by object, so that a decision starts from arrays.

A `PlacementSnapshotCache` is updated when objects are added, changed or removed; `snapshot(now)` is the state at that
time. A snapshot shares memory with the cache: use it before the next update.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from trimtab.api.cache_by_identity import cache_by_identity
from trimtab.api.kinds.ocm_clusters import CLUSTER_GROUP, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, ClusterDecision, PlacementDecision
from trimtab.api.value import Object
from trimtab.decide.fleet import MIN_TIME, ExternalValue, Fleet
from trimtab.decide.request import DecisionCounts

PLACEMENT_LABEL = f"{CLUSTER_GROUP}/placement"
GROUP_NAME_LABEL = f"{CLUSTER_GROUP}/decision-group-name"
GROUP_INDEX_LABEL = f"{CLUSTER_GROUP}/decision-group-index"
PAGE_SIZE = 100
"""The maximum number of clusters in a PlacementDecision."""

V = TypeVar("V")
Owner: TypeAlias = tuple[str, str]
"""Namespace and name of a Placement."""


def page_name(placement: str, number: int) -> str:
    """The name of a PlacementDecision; they are numbered from 1."""
    return f"{placement}-decision-{number}"


def one_group_labels(placement: str) -> dict[str, str]:
    """The labels of every PlacementDecision where all clusters are in one group."""
    return {PLACEMENT_LABEL: placement, GROUP_NAME_LABEL: "", GROUP_INDEX_LABEL: "0"}


def score_key(resource: str) -> str:
    """The kind of external value that holds the scores of one AddOnPlacementScore."""
    return f"AddOnPlacementScore/{resource}"


def external_value_of(score: AddOnPlacementScore) -> ExternalValue:
    """The scores, and until when they are valid."""
    return ExternalValue({entry.name: entry.value for entry in score.status.scores}, score.status.valid_until)


def clusters_of(decision: PlacementDecision) -> list[str]:
    """The clusters of a page. Full pages with the same entries share the list: do not change it."""
    entries = decision.status.decisions if decision.status is not None else ()
    return _names_of_entries(entries) if len(entries) == PAGE_SIZE else [entry.cluster_name for entry in entries]


_names_of_entries: Callable[[tuple[ClusterDecision, ...]], list[str]] = cache_by_identity(
    lambda entries: [entry.cluster_name for entry in entries], max_entries=1024
)


class StoredDecision(NamedTuple):
    """One PlacementDecision and its clusters."""

    decision: PlacementDecision
    clusters: list[str]


class StoredDecisions:
    """All stored decisions of one Placement."""

    def __init__(self) -> None:
        self.pages: dict[str, StoredDecision] = {}
        self._ordered_columns: tuple[tuple[str, int], list[int] | None] | None = None

    def set_page(self, name: str, stored: StoredDecision | None) -> None:
        if stored is None:
            self.pages.pop(name, None)
        else:
            self.pages[name] = stored
        self.__dict__.pop("listed_clusters", None)
        self.__dict__.pop("distinct_clusters", None)
        self._ordered_columns = None

    def ordered_columns(self, placement: str, fleet: Fleet[ManagedCluster]) -> list[int] | None:
        """The columns of the clusters, if they are listed in one unnamed group, page by page; else None."""
        if self._ordered_columns is None or self._ordered_columns[0] != (placement, fleet.layout):
            self._ordered_columns = ((placement, fleet.layout), self._compute_ordered_columns(placement, fleet))
        return self._ordered_columns[1]

    def _compute_ordered_columns(self, placement: str, fleet: Fleet[ManagedCluster]) -> list[int] | None:
        labels = one_group_labels(placement)
        names: list[str] = []
        for number in range(1, len(self.pages) + 1):
            held = self.pages.get(page_name(placement, number))
            full = len(names) == (number - 1) * PAGE_SIZE and (number == 1 or (held is not None and held.clusters))
            if held is None or held.decision.metadata.labels != labels or not full:
                return None
            names += held.clusters
        if not self.pages or any(name not in fleet.index for name in names):
            return None
        return [fleet.index[name] for name in names]

    @cached_property
    def listed_clusters(self) -> tuple[str, ...]:
        """The clusters, each as often as it is listed."""
        return tuple([cluster for held in self.pages.values() for cluster in held.clusters])

    @cached_property
    def distinct_clusters(self) -> tuple[str, ...]:
        """The clusters, each once."""
        once = dict.fromkeys(self.listed_clusters)
        return self.listed_clusters if len(once) == len(self.listed_clusters) else tuple(once)


NO_DECISIONS = StoredDecisions()


class PlacementSnapshot(NamedTuple):
    """All input of Placement decisions at one time."""

    now: datetime
    fleet: Fleet[ManagedCluster]
    sets: Mapping[str, ManagedClusterSet]
    bindings: Mapping[str, Mapping[str, ManagedClusterSetBinding]]
    """By namespace, then by name."""
    decisions: Mapping[Owner, StoredDecisions]
    """The decisions of each Placement."""
    count_decisions: Callable[[], DecisionCounts]
    sets_revision: int
    """Changes with every change of `sets` or `bindings`."""

    @property
    def decision_counts(self) -> DecisionCounts:
        """How often each cluster was selected, in all namespaces."""
        return self.count_decisions()

    def decisions_of(self, namespace: str, name: str) -> StoredDecisions:
        return self.decisions.get((namespace, name), NO_DECISIONS)

    def bound_sets(self, namespace: str) -> tuple[str, ...]:
        """The sets that the namespace may use: existing sets for which it has a binding of the same name."""
        return tuple(sorted(name for name in self.bindings.get(namespace, ()) if name in self.sets))


class PlacementSnapshotCache:
    """Keeps the snapshot up to date with the objects."""

    kinds: tuple[type[Object], ...] = (
        ManagedCluster,
        ManagedClusterSet,
        ManagedClusterSetBinding,
        PlacementDecision,
        AddOnPlacementScore,
    )

    def __init__(self, objects: Iterable[Object] = ()) -> None:
        self._fleet: Fleet[ManagedCluster] = Fleet.of(())
        self._sets: dict[str, ManagedClusterSet] = {}
        self._bindings: dict[str, dict[str, ManagedClusterSetBinding]] = {}
        self._decisions: dict[Owner, StoredDecisions] = {}
        self._uncounted: list[tuple[list[str], int]] = []
        """Clusters of decisions that were added (1) or removed (-1) since they were last counted."""
        self._counted_layout = -1
        self._counts = DecisionCounts(np.zeros(0, dtype=np.int64), {})
        self._sets_revision = 0
        self._latest: PlacementSnapshot | None = None
        self._changed_clusters: dict[str, ManagedCluster | None] = {}
        self._changed_scores: dict[str, dict[str, ExternalValue | None]] = {}
        self._expiries: list[datetime] = []
        self._known_expiries: set[datetime] = set()
        for obj in objects:
            self.update(None, obj)

    def update(self, old: Object | None, new: Object | None) -> None:
        """An object was added (old is None), changed, or removed (new is None)."""
        obj = new if new is not None else old
        if isinstance(obj, ManagedCluster):
            self._changed_clusters[obj.name] = new  # type: ignore[assignment]
        elif isinstance(obj, AddOnPlacementScore):
            self._update_score(obj, removed=new is None)
        elif isinstance(obj, PlacementDecision):
            self._update_decision(old, new)
        elif isinstance(obj, ManagedClusterSet):
            _set_or_remove(self._sets, obj.name, obj, removed=new is None)
            self._sets_revision += 1
        elif isinstance(obj, ManagedClusterSetBinding):
            _set_or_remove(self._bindings.setdefault(obj.namespace, {}), obj.name, obj, removed=new is None)
            self._sets_revision += 1

    def _update_score(self, score: AddOnPlacementScore, *, removed: bool) -> None:
        until = score.status.valid_until
        self._changed_scores.setdefault(score_key(score.name), {})[score.namespace] = (
            None if removed else external_value_of(score)
        )
        if until is not None and not removed and until not in self._known_expiries:
            heappush(self._expiries, until)
            self._known_expiries.add(until)

    def _update_decision(self, old: Object | None, new: Object | None) -> None:
        for decision, step in ((old, -1), (new, 1)):
            if isinstance(decision, PlacementDecision):
                clusters = clusters_of(decision)
                owner = (decision.namespace, decision.metadata.labels.get(PLACEMENT_LABEL, ""))
                holding = self._decisions.get(owner)
                if holding is None:
                    holding = self._decisions[owner] = StoredDecisions()
                holding.set_page(decision.name, StoredDecision(decision, clusters) if step > 0 else None)
                self._uncounted.append((clusters, step))

    def snapshot(self, now: datetime) -> PlacementSnapshot:
        """The snapshot at this time, including all updates."""
        latest = self._latest
        if (
            latest is not None
            and not self._changed_clusters
            and not self._changed_scores
            and (latest.now, latest.sets_revision) == (now, self._sets_revision)
        ):
            return latest  # it shares all else with this cache
        if self._changed_clusters:
            here = [cluster for cluster in self._changed_clusters.values() if cluster is not None]
            self._fleet = self._fleet.change(
                here, removed=[name for name, new in self._changed_clusters.items() if new is None]
            )
            self._changed_clusters = {}
        for kind, changed in self._changed_scores.items():
            self._fleet = self._fleet.with_external_value_changes(kind, changed)
        self._changed_scores = {}
        self._expire_scores(now)
        self._latest = PlacementSnapshot(
            now, self._fleet, self._sets, self._bindings, self._decisions, self._count_decisions, self._sets_revision
        )
        return self._latest

    def _count_decisions(self) -> DecisionCounts:
        """Count what changed, or all decisions again when the layout changed."""
        if not self._uncounted and self._counted_layout == self._fleet.layout:
            return self._counts
        fleet, counts, outside = self._fleet, self._counts.counts, dict(self._counts.outside_fleet)
        if self._counted_layout != fleet.layout:
            self._counted_layout = fleet.layout
            counts, outside = np.zeros(len(fleet), dtype=np.int64), {}
            self._uncounted = [
                (held.clusters, 1) for all_of in self._decisions.values() for held in all_of.pages.values()
            ]
        for step in (1, -1):
            pages = [(clusters, fleet.columns_of(clusters)) for clusters, one in self._uncounted if one == step]
            if pages:
                np.add.at(counts, np.concatenate([columns for _, columns in pages]), step)
            for clusters, columns in pages:
                if len(columns) < len(clusters):
                    _count_outside(outside, [name for name in clusters if name not in fleet.index], step)
        self._counts = DecisionCounts(counts, outside)
        self._uncounted = []
        return self._counts

    def _expire_scores(self, now: datetime) -> None:
        """Arrays depend on time only through values that expire: between two expiries the fleet stays the same."""
        expired = self._fleet.now == MIN_TIME
        while self._expiries and self._expiries[0] < now:
            self._known_expiries.discard(heappop(self._expiries))
            expired = True
        if expired:
            self._fleet = self._fleet.at(now)


def _count_outside(outside: dict[str, int], names: Iterable[str], step: int) -> None:
    for name in names:
        outside[name] = outside.get(name, 0) + step
        if not outside[name]:
            del outside[name]


def _set_or_remove(mapping: dict[str, V], name: str, obj: V, *, removed: bool) -> None:
    if removed:
        mapping.pop(name, None)
    else:
        mapping[name] = obj
