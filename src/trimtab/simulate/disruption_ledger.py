"""What the scheduler of a simulated cluster knows of owners: what they bore, by what was told and just decided, and what is due to them."""

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
from trimtab.decide.pods.node_info import Resident
from trimtab.decide.pods.preemption.fair_share import Claimant
from trimtab.decide.pods.preemption.recent_disruptions import EVICTED, LATELY, Burden, Burdens, burden
from trimtab.runtime.cache import Cache
from trimtab.simulate.workloads.owned_pods import PODS_OF, children

READ: tuple[type[Object], ...] = (Event, Deployment, ReplicaSet, StatefulSet)
"""What must be known before burdens can be told."""
WEIGHT = "trimtab.dev/share-weight"
"""On a workload: how much it may have beside others of its priority, when equals may change places; 1 is usual."""
OWNER_EVENTS = Index(
    "evictions from an owner", Event, lambda one: (one.involved_object.uid,) if one.reason == EVICTED else ()
)


class Top(NamedTuple):
    """The owner that people know, how many pods it wants if that is known, and through whom it has them."""

    uid: str
    replicas: int | None
    controllers: tuple[str, ...]
    weight: float = 1.0


class Ledger:
    """Evictions are told on their owner in one step with them, and for an hour: so burdens survive a restart.

    What was decided here a moment ago may not have been heard yet: it is remembered by the pod, and counts once.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._taken: dict[str, tuple[str, datetime]] = {}
        """Victims by uid: their controller, and when they were chosen."""

    def take(self, victims: Iterable[Resident], now: datetime) -> frozenset[str]:
        """These are about to go; returns those of whom that was not known, by uid."""
        self._taken = {uid: (whose, at) for uid, (whose, at) in self._taken.items() if now - at < LATELY}
        chosen = {one.pod.metadata.uid: (one.traits.controller, now) for one in victims if one.traits.controller}
        fresh = frozenset(chosen.keys() - self._taken.keys())
        self._taken = chosen | self._taken
        return fresh

    def give_back(self, victims: Iterable[str]) -> None:
        """These do not go after all."""
        for uid in victims:
            self._taken.pop(uid, None)

    def burdens(self, now: datetime) -> Burdens:
        """How owners stand at this moment; each is looked at once."""

        @cache
        def of(controller: str) -> Burden:
            return self._burden(controller, now)

        return of

    def claimants(self) -> Callable[[str], Claimant]:
        """Whose share counts when equals change places, by controller; each is looked at once."""

        @cache
        def of(controller: str) -> Claimant:
            top = self.top(controller)
            return Claimant(top.uid, top.weight)

        return of

    def _burden(self, controller: str, now: datetime) -> Burden:
        top = self.top(controller)
        pods = [pod for uid in top.controllers for pod in self._cache.table_of(Pod).having(PODS_OF, uid)]
        pods = [pod for pod in pods if not pod.terminal]
        ends = dict(self._told(top.uid))
        ends |= {uid: at for uid, (whose, at) in self._taken.items() if whose in top.controllers}
        staying = sum(pod.metadata.deletion_timestamp is None for pod in pods)
        return burden(top.uid, staying if top.replicas is None else top.replicas, pods, ends, now)

    def _told(self, owner: str) -> Iterator[tuple[str, datetime]]:
        for one in self._cache.table_of(Event).having(OWNER_EVENTS, owner):
            at = one.last_timestamp or one.metadata.creation_timestamp
            if at is not None:
                yield (one.related.uid if one.related is not None else one.metadata.uid), at

    def top(self, controller: str) -> Top:
        for type_ in (ReplicaSet, StatefulSet):
            for one in self._found(type_, controller):
                above = next((ref.uid for ref in one.metadata.owner_references if ref.controller), "")
                for top in self._found(Deployment, above) if above else ():
                    below = self._cache.table_of(ReplicaSet).having(children(ReplicaSet), above)
                    return Top(above, replicas_of(top), tuple(set_.metadata.uid for set_ in below), _weight(top))
                return Top(controller, replicas_of(one), (controller,), _weight(one))
        return Top(controller, None, (controller,))

    def _found(self, type_: type[Object], uid: str) -> list[Any]:
        return self._cache.table_of(type_).having(by_uid(type_), uid)


def _weight(owner: Object) -> float:
    """What the owner says of itself; what cannot be read, or is not positive, is 1."""
    try:
        weight = float(owner.metadata.annotations.get(WEIGHT, "1"))
    except ValueError:
        return 1.0
    return weight if 0 < weight < math.inf else 1.0
