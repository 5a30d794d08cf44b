"""Everything that Placements look at, kept in step object by object, so that a decision starts from arrays.

An `Atlas` learns of objects as they come, change and go; `scene(now)` is the picture at that time. A scene is borrowed:
use it before the atlas learns the next thing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias, TypeVar

from trimtab.api.kinds.ocm import (
    CLUSTER_GROUP,
    AddOnPlacementScore,
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    PlacementDecision,
)
from trimtab.api.value import Object
from trimtab.decide.fleet import LONG_AGO, Fleet, Note

PLACEMENT_LABEL = f"{CLUSTER_GROUP}/placement"
DECISIONS = "Decisions"
"""The kind of note that counts how often a cluster was decided for."""

V = TypeVar("V")
Owner: TypeAlias = tuple[str, str]
"""Namespace and name of a Placement."""


def score_note(resource: str) -> str:
    """The kind of note that holds the scores of one AddOnPlacementScore."""
    return f"AddOnPlacementScore/{resource}"


def clusters_of(decision: PlacementDecision) -> list[str]:
    return [entry.cluster_name for entry in decision.status.decisions] if decision.status is not None else []


class Held(NamedTuple):
    """One PlacementDecision and the clusters in it."""

    decision: PlacementDecision
    clusters: list[str]


class Scene(NamedTuple):
    """The world of Placements at one time."""

    now: datetime
    fleet: Fleet[ManagedCluster]
    sets: Mapping[str, ManagedClusterSet]
    bindings: Mapping[str, Mapping[str, ManagedClusterSetBinding]]
    """By namespace, then by name."""
    held: Mapping[Owner, Mapping[str, Held]]
    """The decisions of each Placement, by name."""

    def held_by(self, namespace: str, name: str) -> Mapping[str, Held]:
        return self.held.get((namespace, name), {})

    def bound(self, namespace: str) -> tuple[str, ...]:
        """The sets that the namespace may use: those that exist and for which it has a binding of that name."""
        return tuple(sorted(name for name in self.bindings.get(namespace, ()) if name in self.sets))


class Atlas:
    """Keeps the scene in step with the objects it is told of."""

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
        self._held: dict[Owner, dict[str, Held]] = {}
        self._times: Counter[str] = Counter()
        self._moved: dict[str, ManagedCluster | None] = {}
        self._noted: dict[str, dict[str, Note | None]] = {}
        self._expiries: list[datetime] = []
        self._ends: set[datetime] = set()
        for thing in things:
            self.learn(None, thing)

    def learn(self, old: Object | None, new: Object | None) -> None:
        """An object came (old is None), changed, or went (new is None)."""
        thing = new if new is not None else old
        if isinstance(thing, ManagedCluster):
            self._moved[thing.name] = new  # type: ignore[assignment]
        elif isinstance(thing, AddOnPlacementScore):
            self._learn_score(thing, gone=new is None)
        elif isinstance(thing, PlacementDecision):
            self._learn_decision(old, new)
        elif isinstance(thing, ManagedClusterSet):
            _put(self._sets, thing.name, thing, gone=new is None)
        elif isinstance(thing, ManagedClusterSetBinding):
            _put(self._bindings.setdefault(thing.namespace, {}), thing.name, thing, gone=new is None)

    def _learn_score(self, score: AddOnPlacementScore, *, gone: bool) -> None:
        until = score.status.valid_until
        note = Note({entry.name: entry.value for entry in score.status.scores}, until)
        self._noted.setdefault(score_note(score.name), {})[score.namespace] = None if gone else note
        if until is not None and not gone and until not in self._ends:
            heappush(self._expiries, until)
            self._ends.add(until)

    def _learn_decision(self, old: Object | None, new: Object | None) -> None:
        touched: set[str] = set()
        for decision, step in ((old, -1), (new, 1)):
            if not isinstance(decision, PlacementDecision):
                continue
            held = Held(decision, clusters_of(decision))
            owner = (decision.namespace, decision.metadata.labels.get(PLACEMENT_LABEL, ""))
            _put(self._held.setdefault(owner, {}), decision.name, held, gone=step < 0)
            for cluster in held.clusters:
                self._times[cluster] += step
            touched.update(held.clusters)
        counts = self._noted.setdefault(DECISIONS, {})
        counts.update({name: Note(self._times[name]) if self._times[name] else None for name in touched})

    def scene(self, now: datetime) -> Scene:
        """The picture at this time, all that was learned included."""
        if self._moved:
            here = [cluster for cluster in self._moved.values() if cluster is not None]
            self._fleet = self._fleet.change(here, gone=[name for name, new in self._moved.items() if new is None])
            self._moved = {}
        for kind, changed in self._noted.items():
            self._fleet = self._fleet.amend(kind, changed)
        self._noted = {}
        self._let_expire(now)
        return Scene(now, self._fleet, self._sets, self._bindings, self._held)

    def _let_expire(self, now: datetime) -> None:
        """Arrays depend on the time only through notes that end: between two ends the picture stays as it is."""
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
