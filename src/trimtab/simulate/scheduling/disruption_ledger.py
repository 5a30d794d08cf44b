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
from trimtab.simulate.workloads.owned_pods import PODS_BY_OWNER, children_by_owner

TYPES_READ: tuple[type[Object], ...] = (Event, Deployment, ReplicaSet, StatefulSet)
"""Types whose tables must be synced before recent disruptions can be counted."""
SHARE_WEIGHT = "trimtab.dev/fair-share-weight"
"""Annotation on a workload: its share relative to others of equal priority under fair preemption; the default is 1."""
OWNER_EVENTS = Index(
    "evictions from an owner", Event, lambda one: (one.involved_object.uid,) if one.reason == POD_EVICTED_REASON else ()
)


class TopOwner(NamedTuple):
    """The topmost owner of a pod, its wanted replicas if known, and the controllers through which it owns pods."""

    uid: str
    replicas: int | None
    controllers: tuple[str, ...]
    weight: float = 1.0


class DisruptionLedger:
    """Counts the recent disruptions of owners.

    Every eviction writes an event about the owner in the same transaction, and the event lives for an hour: so the
    count survives a restart. A preemption decided here may not be in the cache yet: it is remembered by pod uid, so
    that it counts exactly once.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._charged: dict[str, tuple[str, datetime]] = {}
        """Victims by uid: their controller, and when they were selected."""

    def charge(self, victims: Iterable[PodInfo], now: datetime) -> frozenset[str]:
        """Record that these pods are about to be evicted; returns the uids that were not recorded before."""
        self._charged = {
            uid: (controller, at) for uid, (controller, at) in self._charged.items() if now - at < RECENT_WINDOW
        }
        chosen = {
            one.pod.metadata.uid: (one.traits.controller_uid, now) for one in victims if one.traits.controller_uid
        }
        fresh = frozenset(chosen.keys() - self._charged.keys())
        self._charged = chosen | self._charged
        return fresh

    def refund(self, victims: Iterable[str]) -> None:
        """Remove the record of these pods, because they are not evicted."""
        for uid in victims:
            self._charged.pop(uid, None)

    def recent_disruptions(self, now: datetime) -> DisruptionsLookup:
        """A function from controller to its recent disruptions at this moment; each controller is computed once."""

        @cache
        def of(controller: str) -> RecentDisruptions:
            return self._disruptions_of(controller, now)

        return of

    def claimants(self) -> Callable[[str], ShareOwner]:
        """A function from controller to the owner whose share counts under fair preemption; each is computed once."""

        @cache
        def of(controller: str) -> ShareOwner:
            top = self.top_owner(controller)
            return ShareOwner(top.uid, top.weight)

        return of

    def _disruptions_of(self, controller: str, now: datetime) -> RecentDisruptions:
        top = self.top_owner(controller)
        pods = [pod for uid in top.controllers for pod in self._cache.table_of(Pod).by_index(PODS_BY_OWNER, uid)]
        pods = [pod for pod in pods if not pod.is_terminal]
        ends = dict(self._recorded_evictions(top.uid))
        ends |= {uid: at for uid, (controller, at) in self._charged.items() if controller in top.controllers}
        staying = sum(pod.metadata.deletion_timestamp is None for pod in pods)
        return recent_disruptions_of(top.uid, staying if top.replicas is None else top.replicas, pods, ends, now)

    def _recorded_evictions(self, owner: str) -> Iterator[tuple[str, datetime]]:
        for one in self._cache.table_of(Event).by_index(OWNER_EVENTS, owner):
            at = one.last_timestamp or one.metadata.creation_timestamp
            if at is not None:
                yield (one.related.uid if one.related is not None else one.metadata.uid), at

    def top_owner(self, controller: str) -> TopOwner:
        for type_ in (ReplicaSet, StatefulSet):
            for one in self._by_uid(type_, controller):
                above = next((ref.uid for ref in one.metadata.owner_references if ref.controller), "")
                for top in self._by_uid(Deployment, above) if above else ():
                    below = self._cache.table_of(ReplicaSet).by_index(children_by_owner(ReplicaSet), above)
                    return TopOwner(
                        above, replicas_of(top), tuple(set_.metadata.uid for set_ in below), _share_weight(top)
                    )
                return TopOwner(controller, replicas_of(one), (controller,), _share_weight(one))
        return TopOwner(controller, None, (controller,))

    def _by_uid(self, type_: type[Object], uid: str) -> list[Any]:
        return self._cache.table_of(type_).by_index(by_uid(type_), uid)


def _share_weight(owner: Object) -> float:
    """The share weight in the annotation; 1 if it cannot be parsed or is not positive."""
    try:
        weight = float(owner.metadata.annotations.get(SHARE_WEIGHT, "1"))
    except ValueError:
        return 1.0
    return weight if 0 < weight < math.inf else 1.0
