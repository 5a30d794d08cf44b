"""The picture of the fleet that decisions are made on: kept up to date cluster by cluster, never built twice."""

from collections.abc import Hashable, Mapping
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, NamedTuple, cast

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm import AddOnPlacementScore
from trimtab.api.value import Key
from trimtab.decide.fleet import Fleet, Note
from trimtab.decide.karmada import RESERVED_FOR, reserve_moves
from trimtab.decide.request import Ask
from trimtab.runtime.cache import Cache, Entry


class _Given(NamedTuple):
    until: datetime
    ask: Ask
    arriving: tuple[tuple[str, int], ...]

    def stands(self, ask: Ask) -> bool:
        """Whether it was written down; else the one it was given to asks again, and its room is free for it."""
        placed = dict(ask.placed)
        return all(placed.get(name, 0) >= n for name, n in self.arriving)


def by_the_second(moment: datetime) -> datetime:
    """The next whole second: so that what was given in one lapses in one, and the rest is not reserved anew each time."""
    return moment if not moment.microsecond else moment.replace(microsecond=0) + timedelta(seconds=1)


class FleetKeeper:
    """Follows clusters and their scores; remembers for a while what was given away but is not reported yet."""

    def __init__(self, cache: Cache, memory: dict[tuple[str, Hashable], Any]) -> None:
        self._memory = memory
        self._fleet: Fleet[Cluster] = Fleet.of(())
        self._changed: dict[str, Cluster | None] = {}
        self._scores: dict[str, dict[str, Note | None]] = {}
        self._given: dict[Key, _Given] = {}
        """In the order in which they lapse."""
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

    def at(self, now: datetime, deciding: Mapping[Key, Ask] | None = None) -> Fleet[Cluster]:
        """The fleet as it stands, for those about whom something is to be decided."""
        self._adopt()
        fleet = self._fleet
        if self._changed:
            here = [cluster for cluster in self._changed.values() if cluster is not None]
            fleet = fleet.change(here, gone=[name for name, cluster in self._changed.items() if cluster is None])
            self._changed = {}
        for kind, changed in self._scores.items():
            fleet = fleet.amend(kind, changed)
        self._scores = {}
        over = list(takewhile(lambda key: self._given[key].until <= now, self._given))
        over += [
            key for key, ask in (deciding or {}).items() if key in self._given and not self._given[key].stands(ask)
        ]
        if over:
            for key in over:
                self._given.pop(key, None)
            moving = ((given.ask, given.arriving) for given in self._given.values())
            fleet = reserve_moves(moving, fleet.without_reservations())
        self._memory["fleet", "next lapse"] = next((given.until for given in self._given.values()), None)
        self._fleet = fleet.at(now)
        return self._fleet

    def _adopt(self) -> None:
        """Take over the picture that the last batch left, in which its room is taken."""
        left = self._memory.pop(("fleet", "given away"), None)
        if left is not None:
            self._fleet, gains = left
            until = by_the_second(self._fleet.now + RESERVED_FOR)  # from when it was given, whenever somebody looks
            for key, ask, arriving in gains:
                if arriving:
                    self._given.pop(key, None)
                    self._given[key] = _Given(until, ask, arriving)
