"""Recent disruptions of each owner and its share weight, as preemption in a simulated cluster counts them."""

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from trimtab.api.kinds.native.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.kinds.native.event import Event
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Object
from trimtab.controllers.contract import Index
from trimtab.controllers.pods.avoid_list_expiry import by_uid
from trimtab.controllers.pods.owners import replicas_of
from trimtab.decide.pods.node_info import PodInfo
from trimtab.decide.pods.preemption.fair_share import ShareOwner
from trimtab.decide.pods.preemption.recent_disruptions import (
    POD_EVICTED_REASON,
    RECENT_WINDOW,
    DisruptionsLookup,
    RecentDisruptions,
    recent_disruptions_of,
)
from trimtab.runtime.cache import Cache
from trimtab.simulate.workloads.owned_pods import PODS_OF, children

READ: tuple[type[Object], ...] = (Event, Deployment, ReplicaSet, StatefulSet)
"""Types whose tables must be synced before recent disruptions can be counted."""
WEIGHT = "trimtab.dev/share-weight"
"""Annotation on a workload: its share relative to others of equal priority under fair preemption; the default is 1."""
OWNER_EVENTS = Index(
    "evictions from an owner", Event, lambda one: (one.involved_object.uid,) if one.reason == POD_EVICTED_REASON else ()
)


class Top(NamedTuple):
    """The topmost owner of a pod, its wanted replicas if known, and the controllers through which it owns pods."""

    uid: str
    replicas: int | None
    controllers: tuple[str, ...]
    weight: float = 1.0


class Ledger:
    """Counts the recent disruptions of owners.

    Every eviction writes an event about the owner in the same transaction, and the event lives for an hour: so the
    count survives a restart. A preemption decided here may not be in the cache yet: it is remembered by pod uid, so
    that it counts exactly once.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._taken: dict[str, tuple[str, datetime]] = {}
        """Victims by uid: their controller, and when they were selected."""

    def take(self, victims: Iterable[PodInfo], now: datetime) -> frozenset[str]:
        """Record that these pods are about to be evicted; returns the uids that were not recorded before."""
        self._taken = {
            uid: (controller, at) for uid, (controller, at) in self._taken.items() if now - at < RECENT_WINDOW
        }
        chosen = {
            one.pod.metadata.uid: (one.traits.controller_uid, now) for one in victims if one.traits.controller_uid
        }
        fresh = frozenset(chosen.keys() - self._taken.keys())
        self._taken = chosen | self._taken
        return fresh

    def give_back(self, victims: Iterable[str]) -> None:
        """Remove the record of these pods, because they are not evicted."""
        for uid in victims:
            self._taken.pop(uid, None)

    def burdens(self, now: datetime) -> DisruptionsLookup:
        """A function from controller to its recent disruptions at this moment; each controller is computed once."""

        @cache
        def of(controller: str) -> RecentDisruptions:
            return self._burden(controller, now)

        return of

    def claimants(self) -> Callable[[str], ShareOwner]:
        """A function from controller to the owner whose share counts under fair preemption; each is computed once."""

        @cache
        def of(controller: str) -> ShareOwner:
            top = self.top(controller)
            return ShareOwner(top.uid, top.weight)

        return of

    def _burden(self, controller: str, now: datetime) -> RecentDisruptions:
        top = self.top(controller)
        pods = [pod for uid in top.controllers for pod in self._cache.table_of(Pod).by_index(PODS_OF, uid)]
        pods = [pod for pod in pods if not pod.is_terminal]
        ends = dict(self._told(top.uid))
        ends |= {uid: at for uid, (controller, at) in self._taken.items() if controller in top.controllers}
        staying = sum(pod.metadata.deletion_timestamp is None for pod in pods)
        return recent_disruptions_of(top.uid, staying if top.replicas is None else top.replicas, pods, ends, now)

    def _told(self, owner: str) -> Iterator[tuple[str, datetime]]:
        for one in self._cache.table_of(Event).by_index(OWNER_EVENTS, owner):
            at = one.last_timestamp or one.metadata.creation_timestamp
            if at is not None:
                yield (one.related.uid if one.related is not None else one.metadata.uid), at

    def top(self, controller: str) -> Top:
        for type_ in (ReplicaSet, StatefulSet):
            for one in self._found(type_, controller):
                above = next((ref.uid for ref in one.metadata.owner_references if ref.controller), "")
                for top in self._found(Deployment, above) if above else ():
                    below = self._cache.table_of(ReplicaSet).by_index(children(ReplicaSet), above)
                    return Top(above, replicas_of(top), tuple(set_.metadata.uid for set_ in below), _weight(top))
                return Top(controller, replicas_of(one), (controller,), _weight(one))
        return Top(controller, None, (controller,))

    def _found(self, type_: type[Object], uid: str) -> list[Any]:
        return self._cache.table_of(type_).by_index(by_uid(type_), uid)


def _weight(owner: Object) -> float:
    """The share weight in the annotation; 1 if it cannot be parsed or is not positive."""
    try:
        weight = float(owner.metadata.annotations.get(WEIGHT, "1"))
    except ValueError:
        return 1.0
    return weight if 0 < weight < math.inf else 1.0
