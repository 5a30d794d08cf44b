"""Fairness among equals: what part of a cluster each owner has, and when a change of places makes it more even."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.decide.pods.fleet import NodeFleet
from trimtab.decide.pods.host import Resident

LEAST_RUN, LEAST_WAIT = timedelta(minutes=10), timedelta(minutes=2)


class Fairness(NamedTuple):
    """Pods of equal priority may change places when that makes what their owners have more even."""

    now: datetime
    waiting_since: datetime
    """Since when the pod has no node."""
    weights: Mapping[str, float] = {}
    """How much an owner may have, by uid; 1 when not given."""


class Shares:
    """What part of the cluster every owner has, and whether a change of places makes it more even.

    A victim's owner must afterwards still have at least what the newcomer's owner then has. So every swap raises the
    smaller of two shares and leaves the others alone, and with unchanged demand swaps come to an end.
    """

    def __init__(self, me: Resident, fleet: NodeFleet, fairness: Fairness) -> None:
        self._me, self._fairness = me, fairness
        self._size: dict[str, int] = {}
        self._owned: dict[str, dict[str, int]] = {}
        for here in fleet.hosts:
            _add(self._size, here.allocatable)
            for one in here.residents:
                _add(self._owned.setdefault(_owner(one), {}), one.demand.requests)
        self._mine = self._share(_owner(me), (me,), 1)

    def may_yield(self, pod: Resident) -> bool:
        """Whether this pod of equal priority is a possible victim at all."""
        started = pod.pod.status.start_time
        owner = _owner(pod)
        if pod.priority != self._me.priority or not owner or not _owner(self._me) or owner == _owner(self._me):
            return False
        if started is None or self._fairness.now - started < LEAST_RUN:
            return False
        if self._fairness.now - self._fairness.waiting_since < LEAST_WAIT:
            return False
        return self.stay_even((pod,))

    def stay_even(self, victims: Sequence[Resident]) -> bool:
        """Whether every owner that loses pods of equal priority keeps at least what the newcomer's then has."""
        equals = [one for one in victims if one.priority == self._me.priority]
        return all(
            self._share(owner, [one for one in equals if _owner(one) == owner], -1) >= self._mine
            for owner in {_owner(one) for one in equals}
        )

    def _share(self, owner: str, changed: Sequence[Resident], sign: int) -> float:
        """The largest part of any resource that the owner has after the change, by its weight."""
        owned = dict(self._owned.get(owner, {}))
        for one in changed:
            _add(owned, one.demand.requests, sign)
        parts = [amount / self._size[resource] for resource, amount in owned.items() if self._size.get(resource)]
        return max(parts, default=0.0) / self._fairness.weights.get(owner, 1.0)


def _owner(pod: Resident) -> str:
    owner = pod.pod.controller
    return owner.uid if owner is not None else ""


def _add(total: dict[str, int], more: Mapping[str, int], sign: int = 1) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + sign * amount
