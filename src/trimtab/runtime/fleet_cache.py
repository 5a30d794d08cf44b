"""The Fleet that decisions read, updated cluster by cluster instead of rebuilt.

A decision takes capacity before the members report it. The scheduler reserves it with the effect `ReserveCapacity`: for
`RESERVATION_TTL`, or until the same binding is decided again without having written the earlier decision. With the setting
`overcommit-protection` a reservation ends when the workload becomes healthy in the cluster, or is deleted, and lapses later.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import NamedTuple, cast

from trimtab.api.kind import key_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore
from trimtab.api.kinds.work import ResourceBinding
from trimtab.api.value import Key
from trimtab.controllers.contract import ReserveCapacity
from trimtab.decide.fleet import ExternalValue, Fleet
from trimtab.decide.karmada import RESERVATION_TTL, UNHEALTHY_RESERVATION_TTL, reserve_moves
from trimtab.decide.ocm.snapshot import external_value_of, score_key
from trimtab.decide.request import PlacementRequest
from trimtab.runtime.cache import Cache, CacheEntry


class _Reservation(NamedTuple):
    """Capacity that a decision took and that the members do not report yet."""

    until: datetime
    request: PlacementRequest
    arriving: tuple[tuple[str, int], ...]
    until_healthy: bool
    placed: tuple[tuple[str, int], ...]
    """What the binding has in these clusters when the decision is written: what it had, and what is added."""

    def is_written(self, request: PlacementRequest) -> bool:
        """Whether the decision was written; if not, the request is being decided again and its capacity is free."""
        placed = dict(request.placed)
        if self.request.components:  # placed as sets, with no number of replicas
            return all(name in placed for name, _ in self.arriving)
        return all(placed.get(name, 0) >= n for name, n in self.placed)


def ceil_to_second(at: datetime) -> datetime:
    """Round up to a second, so that reservations of one second lapse together and the fleet is rebuilt once."""
    return at if not at.microsecond else at.replace(microsecond=0) + timedelta(seconds=1)


def fleet_from(cache: Cache, *, follows_health: bool = False) -> "FleetCache":
    """A fleet that applies every change of the cache; `follows_health`: reservations may last until a workload is healthy."""
    fleet_cache = FleetCache()

    def cluster_changed(old: CacheEntry | None, new: CacheEntry | None) -> None:
        name = (new or cast("CacheEntry", old)).name[1]
        fleet_cache.set_cluster(name, cast("Cluster", new.typed) if new is not None else None)

    def score_changed(old: CacheEntry | None, new: CacheEntry | None) -> None:
        cluster, name = (new or cast("CacheEntry", old)).name
        fleet_cache.set_score(cluster, name, cast("AddOnPlacementScore", new.typed) if new is not None else None)

    def binding_changed(old: CacheEntry | None, new: CacheEntry | None) -> None:
        fleet_cache.binding_changed(
            cast("ResourceBinding", old.typed) if old is not None else None,
            cast("ResourceBinding", new.typed) if new is not None else None,
        )

    cache.table_of(Cluster).add_listener(cluster_changed)
    cache.table_of(AddOnPlacementScore).add_listener(score_changed)
    if follows_health:
        cache.table_of(ResourceBinding).add_listener(binding_changed)
    return fleet_cache


def healthy_clusters(binding: ResourceBinding) -> set[str]:
    return {one.cluster_name for one in binding.status.aggregated_status if one.health == "Healthy"}


class FleetCache:
    """Applies changes of clusters and scores to a Fleet, and reserves capacity that decisions took."""

    def __init__(self) -> None:
        self._fleet: Fleet[Cluster] = Fleet.of(())
        self._changed: dict[str, Cluster | None] = {}
        self._scores: dict[str, dict[str, ExternalValue | None]] = {}
        self._reservations: dict[Key, _Reservation] = {}
        """In the order in which they expire. The fleet has their sum, so each is taken away again by itself."""
        self._replaced: list[tuple[PlacementRequest, tuple[tuple[str, int], ...]]] = []
        """Reservations that a later one of the same binding replaced; they end with the next that ends."""

    def set_cluster(self, name: str, cluster: Cluster | None) -> None:
        """A cluster was added, changed or removed (None)."""
        self._changed[name] = cluster

    def set_score(self, cluster: str, name: str, score: AddOnPlacementScore | None) -> None:
        """An AddOnPlacementScore is in the namespace of its cluster; policies refer to it by name."""
        scores = external_value_of(score) if score is not None and score.status is not None else None
        self._scores.setdefault(score_key(name), {})[cluster] = scores

    def binding_changed(self, old: ResourceBinding | None, new: ResourceBinding | None) -> None:
        """End reservations of a binding that is gone, and in clusters where its workload became healthy or is no more."""
        binding = new or old
        kept = self._reservations.get(key_of(binding)) if binding is not None else None
        if binding is None or kept is None or not kept.until_healthy:
            return
        if new is None:
            ended = {name for name, _ in kept.arriving}
        else:
            left = {one.name for one in old.spec.clusters} - {one.name for one in new.spec.clusters} if old else set()
            ended = left | (healthy_clusters(new) - (healthy_clusters(old) if old else set()))
        remaining = tuple((name, n) for name, n in kept.arriving if name not in ended)
        if remaining == kept.arriving:
            return
        key = key_of(binding)
        if not remaining:
            self._end([key], self._fleet)
            return
        released = [(kept.request, tuple(one for one in kept.arriving if one[0] in ended))]
        self._fleet = reserve_moves(released, self._fleet, release=True)
        self._reservations[key] = kept._replace(arriving=remaining)

    def at(self, now: datetime) -> Fleet[Cluster]:
        """The current fleet: with all changes so far, without reservations that have lapsed."""
        fleet = self._fleet
        if self._changed:
            present = [cluster for cluster in self._changed.values() if cluster is not None]
            layout = fleet.layout
            fleet = fleet.change(present, removed=[name for name, cluster in self._changed.items() if cluster is None])
            self._changed = {}
            if fleet.layout != layout:  # a cluster that left and joins again has lost what was reserved in it
                fleet = self._reserve_all(fleet)
        for kind, changed in self._scores.items():
            fleet = fleet.with_external_value_changes(kind, changed)
        self._scores = {}
        if now < fleet.now:
            self._cap_reservations(now)
        lapsed = list(takewhile(lambda key: self._reservations[key].until <= now, self._reservations))
        self._fleet = self._end(lapsed, fleet).at(now)
        return self._fleet

    def fleet_for(self, requests: Mapping[Key, PlacementRequest], now: datetime) -> Fleet[Cluster]:
        """The fleet on which these requests are decided: what their own unwritten decisions reserved is free."""
        return self._without(self._unwritten(requests), self.at(now))

    def reserve(self, effect: ReserveCapacity) -> None:
        """Carry out the effect of a batch of decisions."""
        unwritten = self._unwritten({one.binding: one.request for one in effect.reservations})
        fleet = self._end(unwritten, self._fleet)
        self._fleet = reserve_moves(((one.request, one.arriving) for one in effect.reservations), fleet)
        ttl = UNHEALTHY_RESERVATION_TTL if effect.until_healthy else RESERVATION_TTL
        until = ceil_to_second(effect.since + ttl)
        resized = False
        for one in effect.reservations:
            if one.arriving:
                before = self._reservations.pop(one.binding, None)
                arriving = dict(before.arriving) if before is not None and effect.until_healthy else {}
                if before is not None and not effect.until_healthy:
                    self._replaced.append((before.request, before.arriving))
                resized |= (
                    bool(arriving) and before is not None and before.request.footprint() != one.request.footprint()
                )
                arriving |= {name: arriving.get(name, 0) + n for name, n in one.arriving}
                had = dict(one.request.placed)
                placed = tuple((name, had.get(name, 0) + n) for name, n in one.arriving)
                self._reservations[one.binding] = _Reservation(
                    until, one.request, tuple(arriving.items()), effect.until_healthy, placed
                )
        if resized:  # replicas that arrive are counted with the size that the workload has now
            self._fleet = self._reserve_all(self._fleet)

    @property
    def next_lapse(self) -> datetime | None:
        """When the next reservation lapses."""
        return next((reservation.until for reservation in self._reservations.values()), None)

    def _unwritten(self, requests: Mapping[Key, PlacementRequest]) -> list[Key]:
        """The bindings whose reserved decision was not written."""
        return [
            key
            for key, request in requests.items()
            if key in self._reservations and not self._reservations[key].is_written(request)
        ]

    def _without(self, dropped: Sequence[Key], fleet: Fleet[Cluster]) -> Fleet[Cluster]:
        """The fleet without these reservations, and without those that were replaced, if there are any."""
        if not dropped:
            return fleet
        if len(dropped) == len(self._reservations):
            return fleet.without_reservations()
        ended = [(one.request, one.arriving) for one in map(self._reservations.__getitem__, dropped)]
        return reserve_moves([*ended, *self._replaced], fleet, release=True)

    def _end(self, dropped: Sequence[Key], fleet: Fleet[Cluster]) -> Fleet[Cluster]:
        """End these reservations; the fleet is without them from now on."""
        self._fleet = self._without(dropped, fleet)
        if dropped:
            self._replaced.clear()
        for key in dropped:
            del self._reservations[key]
        return self._fleet

    def _reserve_all(self, fleet: Fleet[Cluster]) -> Fleet[Cluster]:
        """The fleet with all reservations, added up again."""
        self._replaced.clear()
        moves = ((one.request, one.arriving) for one in self._reservations.values())
        return reserve_moves(moves, fleet.without_reservations())

    def _cap_reservations(self, now: datetime) -> None:
        """The clock was set back: no reservation lasts longer than one that is made now."""
        latest = {
            until_healthy: ceil_to_second(now + ttl)
            for until_healthy, ttl in ((False, RESERVATION_TTL), (True, UNHEALTHY_RESERVATION_TTL))
        }
        self._reservations = {
            key: reservation._replace(until=min(reservation.until, latest[reservation.until_healthy]))
            for key, reservation in self._reservations.items()
        }
