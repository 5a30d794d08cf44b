"""The Fleet that decisions read, updated cluster by cluster instead of rebuilt.

A decision takes capacity before the members report it. Until then the capacity is reserved: for `RESERVED_FOR`, or
until the same binding is decided again without having written the earlier decision.
"""

from collections.abc import Hashable, Mapping
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, NamedTuple, cast

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore
from trimtab.api.value import Key
from trimtab.decide.fleet import ExternalValue, Fleet
from trimtab.decide.karmada import RESERVATION_TTL, reserve_moves
from trimtab.decide.request import PlacementRequest
from trimtab.runtime.cache import Cache, CacheEntry


class _Reservation(NamedTuple):
    """Capacity that a decision took and that the members do not report yet."""

    until: datetime
    request: PlacementRequest
    arriving: tuple[tuple[str, int], ...]

    def is_written(self, request: PlacementRequest) -> bool:
        """Whether the decision was written; if not, the request is being decided again and its capacity is free."""
        placed = dict(request.placed)
        return all(placed.get(name, 0) >= n for name, n in self.arriving)


def ceil_to_second(at: datetime) -> datetime:
    """Round up to a second, so that reservations of one second lapse together and the fleet is rebuilt once."""
    return at if not at.microsecond else at.replace(microsecond=0) + timedelta(seconds=1)


class FleetCache:
    """Applies changes of clusters and scores to a Fleet, and reserves capacity that decisions took."""

    def __init__(self, cache: Cache, memory: dict[tuple[str, Hashable], Any]) -> None:
        self._memory = memory
        self._fleet: Fleet[Cluster] = Fleet.of(())
        self._changed: dict[str, Cluster | None] = {}
        self._scores: dict[str, dict[str, ExternalValue | None]] = {}
        self._reservations: dict[Key, _Reservation] = {}
        """In the order in which they expire."""
        cache.table_of(Cluster).add_listener(self._cluster_changed)
        cache.table_of(AddOnPlacementScore).add_listener(self._score_changed)

    def _cluster_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        entry = new or cast("CacheEntry", old)
        self._changed[entry.name[1]] = cast("Cluster", new.typed) if new is not None else None

    def _score_changed(self, old: CacheEntry | None, new: CacheEntry | None) -> None:
        """An AddOnPlacementScore is in the namespace of its cluster; policies refer to it by name."""
        cluster, resource = (new or cast("CacheEntry", old)).name
        scores = None
        if new is not None and (status := cast("AddOnPlacementScore", new.typed).status) is not None:
            scores = ExternalValue({score.name: score.value for score in status.scores}, status.valid_until)
        self._scores.setdefault(f"AddOnPlacementScore/{resource}", {})[cluster] = scores

    def at(self, now: datetime, deciding: Mapping[Key, PlacementRequest] | None = None) -> Fleet[Cluster]:
        """The current fleet; `deciding` are the requests that are about to be decided on it."""
        self._adopt_last_batch()
        fleet = self._fleet
        if self._changed:
            present = [cluster for cluster in self._changed.values() if cluster is not None]
            fleet = fleet.change(present, removed=[name for name, cluster in self._changed.items() if cluster is None])
            self._changed = {}
        for kind, changed in self._scores.items():
            fleet = fleet.with_external_value_changes(kind, changed)
        self._scores = {}
        if now < fleet.now:
            self._cap_reservations(ceil_to_second(now + RESERVATION_TTL))
        expired = list(takewhile(lambda key: self._reservations[key].until <= now, self._reservations))
        expired += [
            key
            for key, ask in (deciding or {}).items()
            if key in self._reservations and not self._reservations[key].is_written(ask)
        ]
        if expired:
            for key in expired:
                self._reservations.pop(key, None)
            moving = ((reservation.request, reservation.arriving) for reservation in self._reservations.values())
            fleet = reserve_moves(moving, fleet.without_reservations())
        self._memory["fleet", "next lapse"] = next(
            (reservation.until for reservation in self._reservations.values()), None
        )
        self._fleet = fleet.at(now)
        return self._fleet

    def _cap_reservations(self, latest: datetime) -> None:
        """The clock was set back: no reservation lasts longer than one that is made now."""
        self._reservations = {
            key: reservation._replace(until=min(reservation.until, latest))
            for key, reservation in self._reservations.items()
        }

    def _adopt_last_batch(self) -> None:
        """Take over the fleet that the last batch of decisions left, with their capacity reserved."""
        batch = self._memory.pop(("fleet", "given away"), None)
        if batch is not None:
            self._fleet, gains = batch
            until = ceil_to_second(self._fleet.now + RESERVATION_TTL)  # counted from the decision, not from this call
            for key, ask, arriving in gains:
                if arriving:
                    self._reservations.pop(key, None)
                    self._reservations[key] = _Reservation(until, ask, arriving)
