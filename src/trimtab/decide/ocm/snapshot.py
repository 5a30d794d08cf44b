"""All input of Placement decisions, updated object by object, so that a decision starts from arrays.

A `PlacementSnapshotCache` is updated when objects are added, changed or removed; `snapshot(now)` is the state at that
time. A snapshot shares memory with the cache: use it before the next update.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from trimtab.api.kinds.ocm_clusters import CLUSTER_GROUP, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, PlacementDecision
from trimtab.api.value import Object
from trimtab.decide.fleet import LONG_AGO, Array, Fleet, Note
from trimtab.decide.request import Popularity

PLACEMENT_LABEL = f"{CLUSTER_GROUP}/placement"
GROUP_NAME_LABEL = f"{CLUSTER_GROUP}/decision-group-name"
GROUP_INDEX_LABEL = f"{CLUSTER_GROUP}/decision-group-index"
PAGE = 100
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


def score_note(resource: str) -> str:
    """The kind of external value that holds the scores of one AddOnPlacementScore."""
    return f"AddOnPlacementScore/{resource}"


def note_of(score: AddOnPlacementScore) -> Note:
    """The scores, and until when they are valid."""
    return Note({entry.name: entry.value for entry in score.status.scores}, score.status.valid_until)


def clusters_of(decision: PlacementDecision) -> list[str]:
    return [entry.cluster_name for entry in decision.status.decisions] if decision.status is not None else []


class Held(NamedTuple):
    """One PlacementDecision and its clusters."""

    decision: PlacementDecision
    clusters: list[str]


class Holding:
    """All stored decisions of one Placement."""

    def __init__(self) -> None:
        self.pages: dict[str, Held] = {}
        self._line: tuple[tuple[str, int], Array | None] | None = None

    def put(self, name: str, held: Held | None) -> None:
        if held is None:
            self.pages.pop(name, None)
        else:
            self.pages[name] = held
        self.__dict__.pop("decided", None)
        self.__dict__.pop("placed", None)
        self._line = None

    def in_line(self, placement: str, fleet: Fleet[ManagedCluster]) -> Array | None:
        """The columns of the clusters, if they are listed in one unnamed group, page by page; else None."""
        if self._line is None or self._line[0] != (placement, fleet.layout):
            self._line = ((placement, fleet.layout), self._lined_up(placement, fleet))
        return self._line[1]

    def _lined_up(self, placement: str, fleet: Fleet[ManagedCluster]) -> Array | None:
        labels = one_group_labels(placement)
        names: list[str] = []
        for number in range(1, len(self.pages) + 1):
            held = self.pages.get(page_name(placement, number))
            full = len(names) == (number - 1) * PAGE and (number == 1 or (held is not None and held.clusters))
            if held is None or held.decision.metadata.labels != labels or not full:
                return None
            names += held.clusters
        if not self.pages or any(name not in fleet.index for name in names):
            return None
        return np.array([fleet.index[name] for name in names], dtype=np.intp)

    @cached_property
    def decided(self) -> tuple[str, ...]:
        """The clusters, each as often as it is listed."""
        return tuple([cluster for held in self.pages.values() for cluster in held.clusters])

    @cached_property
    def placed(self) -> tuple[str, ...]:
        """The clusters, each once."""
        once = dict.fromkeys(self.decided)
        return self.decided if len(once) == len(self.decided) else tuple(once)


NOTHING_HELD = Holding()


class Scene(NamedTuple):
    """All input of Placement decisions at one time."""

    now: datetime
    fleet: Fleet[ManagedCluster]
    sets: Mapping[str, ManagedClusterSet]
    bindings: Mapping[str, Mapping[str, ManagedClusterSetBinding]]
    """By namespace, then by name."""
    held: Mapping[Owner, Holding]
    """The decisions of each Placement."""
    popularity: Popularity
    """How often each cluster was selected, in all namespaces."""

    def held_by(self, namespace: str, name: str) -> Holding:
        return self.held.get((namespace, name), NOTHING_HELD)

    def bound(self, namespace: str) -> tuple[str, ...]:
        """The sets that the namespace may use: existing sets for which it has a binding of the same name."""
        return tuple(sorted(name for name in self.bindings.get(namespace, ()) if name in self.sets))


class Atlas:
    """Keeps the snapshot up to date with the objects."""

    kinds: tuple[type[Object], ...] = (
        ManagedCluster,
        ManagedClusterSet,
        ManagedClusterSetBinding,
        PlacementDecision,
        AddOnPlacementScore,
    )

    def __init__(self, things: Iterable[Object] = ()) -> None:
        self._fleet: Fleet[ManagedCluster] = Fleet.of(())
        self._sets: dict[str, ManagedClusterSet] = {}
        self._bindings: dict[str, dict[str, ManagedClusterSetBinding]] = {}
        self._held: dict[Owner, Holding] = {}
        self._chosen: Counter[str] = Counter()
        self._recount: set[str] = set()
        self._counted_for = -1
        self._times: Array = np.zeros(0, dtype=np.int64)
        self._elsewhere: dict[str, int] = {}
        self._moved: dict[str, ManagedCluster | None] = {}
        self._noted: dict[str, dict[str, Note | None]] = {}
        self._expiries: list[datetime] = []
        self._ends: set[datetime] = set()
        for obj in things:
            self.learn(None, obj)

    def learn(self, old: Object | None, new: Object | None) -> None:
        """An object was added (old is None), changed, or removed (new is None)."""
        obj = new if new is not None else old
        if isinstance(obj, ManagedCluster):
            self._moved[obj.name] = new  # type: ignore[assignment]
        elif isinstance(obj, AddOnPlacementScore):
            self._learn_score(obj, gone=new is None)
        elif isinstance(obj, PlacementDecision):
            self._learn_decision(old, new)
        elif isinstance(obj, ManagedClusterSet):
            _put(self._sets, obj.name, obj, gone=new is None)
        elif isinstance(obj, ManagedClusterSetBinding):
            _put(self._bindings.setdefault(obj.namespace, {}), obj.name, obj, gone=new is None)

    def _learn_score(self, score: AddOnPlacementScore, *, gone: bool) -> None:
        until = score.status.valid_until
        self._noted.setdefault(score_note(score.name), {})[score.namespace] = None if gone else note_of(score)
        if until is not None and not gone and until not in self._ends:
            heappush(self._expiries, until)
            self._ends.add(until)

    def _learn_decision(self, old: Object | None, new: Object | None) -> None:
        changes: Counter[str] = Counter()
        for decision, step in ((old, -1), (new, 1)):
            if isinstance(decision, PlacementDecision):
                clusters = clusters_of(decision)
                owner = (decision.namespace, decision.metadata.labels.get(PLACEMENT_LABEL, ""))
                holding = self._held.setdefault(owner, Holding())
                holding.put(decision.name, Held(decision, clusters) if step > 0 else None)
                (changes.update if step > 0 else changes.subtract)(clusters)
        self._chosen.update(changes)
        self._recount.update(name for name, change in changes.items() if change)

    def scene(self, now: datetime) -> Scene:
        """The snapshot at this time, including all updates."""
        if self._moved:
            here = [cluster for cluster in self._moved.values() if cluster is not None]
            self._fleet = self._fleet.change(here, gone=[name for name, new in self._moved.items() if new is None])
            self._moved = {}
        for kind, changed in self._noted.items():
            self._fleet = self._fleet.amend(kind, changed)
        self._noted = {}
        self._let_expire(now)
        self._count()
        popularity = Popularity(self._times, self._elsewhere)
        return Scene(now, self._fleet, self._sets, self._bindings, self._held, popularity)

    def _count(self) -> None:
        """Update the counts of the changed clusters, or of all when the layout changed."""
        index = self._fleet.index
        if self._counted_for != self._fleet.layout:
            self._counted_for = self._fleet.layout
            self._times = np.zeros(len(index), dtype=np.int64)
            self._elsewhere = {}
            self._recount.update(self._chosen)
        for name in self._recount:
            column = index.get(name)
            if column is not None:
                self._times[column] = self._chosen[name]
            elif self._chosen[name]:
                self._elsewhere[name] = self._chosen[name]
            else:
                self._elsewhere.pop(name, None)
        self._recount = set()

    def _let_expire(self, now: datetime) -> None:
        """Arrays depend on time only through values that expire: between two expiries the fleet stays the same."""
        expired = self._fleet.now == LONG_AGO
        while self._expiries and self._expiries[0] < now:
            self._ends.discard(heappop(self._expiries))
            expired = True
        if expired:
            self._fleet = self._fleet.at(now)


def _put(shelf: dict[str, V], name: str, thing: V, *, gone: bool) -> None:
    if gone:
        shelf.pop(name, None)
    else:
        shelf[name] = thing
