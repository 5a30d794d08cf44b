"""The picture of the fleet that decisions are made on: kept up to date cluster by cluster, never built twice."""

from collections.abc import Hashable
from datetime import datetime
from typing import Any, NamedTuple, cast

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm import AddOnPlacementScore
from trimtab.decide.ask import Ask
from trimtab.decide.fleet import Fleet, Note
from trimtab.decide.karmada import RESERVED_FOR, reserve_moves
from trimtab.runtime.cache import Cache, Entry


class _Given(NamedTuple):
    until: datetime
    ask: Ask
    arriving: tuple[tuple[str, int], ...]


class FleetKeeper:
    """Follows clusters and their scores; remembers for a while what was given away but is not reported yet."""

    def __init__(self, cache: Cache, memory: dict[tuple[str, Hashable], Any]) -> None:
        self._memory = memory
        self._fleet: Fleet[Cluster] = Fleet.of(())
        self._changed: dict[str, Cluster | None] = {}
        self._scores: dict[str, dict[str, Note | None]] = {}
        self._given: list[_Given] = []
        cache.table_of(Cluster).listen(self._cluster)
        cache.table_of(AddOnPlacementScore).listen(self._score)

    def _cluster(self, old: Entry | None, new: Entry | None) -> None:
        entry = new or cast("Entry", old)
        self._changed[entry.name[1]] = cast("Cluster", new.typed) if new is not None else None

    def _score(self, old: Entry | None, new: Entry | None) -> None:
        """A score sheet lives in the namespace of its cluster; its name is what policies ask for."""
        cluster, resource = (new or cast("Entry", old)).name
        note = None
        if new is not None and (status := cast("AddOnPlacementScore", new.typed).status) is not None:
            note = Note({score.name: score.value for score in status.scores}, status.valid_until)
        self._scores.setdefault(f"AddOnPlacementScore/{resource}", {})[cluster] = note

    def at(self, now: datetime) -> Fleet[Cluster]:
        """The fleet as it stands."""
        self._adopt(now)
        fleet = self._fleet
        if self._changed:
            here = [cluster for cluster in self._changed.values() if cluster is not None]
            fleet = fleet.change(here, gone=[name for name, cluster in self._changed.items() if cluster is None])
            self._changed = {}
        for kind, changed in self._scores.items():
            fleet = fleet.amend(kind, changed)
        self._scores = {}
        if any(given.until <= now for given in self._given):
            self._given = [given for given in self._given if given.until > now]
            fleet = reserve_moves(((g.ask, g.arriving) for g in self._given), fleet.without_reservations())
        self._memory["fleet", "next lapse"] = min((given.until for given in self._given), default=None)
        self._fleet = fleet.at(now)
        return self._fleet

    def _adopt(self, now: datetime) -> None:
        """Take over the picture that the last batch left, in which its room is taken."""
        left = self._memory.pop(("fleet", "given away"), None)
        if left is not None:
            self._fleet, gains = left
            self._given += [_Given(now + RESERVED_FOR, ask, arriving) for ask, arriving in gains]
