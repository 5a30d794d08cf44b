"""Fairness among equals: what part of a cluster each owner has, and when a change of places makes it more even."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.decide.pods.affinity.affinity_terms import Labels
from trimtab.decide.pods.fit.requests import Amounts
from trimtab.decide.pods.node_info import Resident
from trimtab.decide.pods.node_snapshot import NodeFleet

LEAST_RUN, LEAST_WAIT = timedelta(minutes=10), timedelta(minutes=2)


class Claimant(NamedTuple):
    """Whose share it is, seen from the top: the Deployment rather than its ReplicaSets."""

    uid: str
    weight: float = 1.0
    """Of two claimants, the one with twice the weight may have twice as much."""


class Fairness(NamedTuple):
    """Pods of equal priority may change places when that makes what their owners have more even."""

    now: datetime
    waiting_since: datetime
    """Since when the pod has no node."""
    claimant: Callable[[str], Claimant] = Claimant
    """By the uid of the controller that pods name."""
    services: Mapping[str, Sequence[Labels]] = {}
    """The selectors of services, by namespace: among owners with equal shares, the service with most yields first."""


class Shares:
    """What part of the cluster every owner has, and whether a change of places makes it more even.

    A victim's owner must afterwards still have at least what the newcomer's owner then has. So every swap raises the
    smaller of two shares and leaves the others alone, and with unchanged demand swaps come to an end. Swaps that are on
    their way count as done: who leaves has nothing, who is promised room has it.
    """

    def __init__(self, me: Resident, fleet: NodeFleet, fairness: Fairness, leaves: Callable[[Resident], bool]) -> None:
        self._me, self._fairness, self._leaves = me, fairness, leaves
        self._size: Amounts = {}
        self._owned: dict[str, Amounts] = {}
        self._services: dict[tuple[str, ...], float] = {}
        self._settled = [one for one in _present(fleet, me) if not leaves(one)]
        for here in fleet.hosts:
            _add(self._size, here.allocatable)
        for one in self._settled:
            _add(self._owned.setdefault(self._claimant(one).uid, {}), one.demand.requests)
        self._mine = self._share(self._claimant(me), (me,), 1)

    def _claimant(self, pod: Resident) -> Claimant:
        return self._fairness.claimant(pod.traits.controller) if pod.traits.controller else Claimant("")

    def may_yield(self, pod: Resident) -> bool:
        """Whether this pod of equal priority is a possible victim at all."""
        if pod.priority != self._me.priority or self._fairness.now - self._fairness.waiting_since < LEAST_WAIT:
            return False
        if self._leaves(pod):
            return True
        started, owner, mine = pod.pod.status.start_time, self._claimant(pod).uid, self._claimant(self._me).uid
        if not owner or not mine or owner == mine:
            return False
        if started is None or self._fairness.now - started < LEAST_RUN:
            return False
        return self.stay_even((pod,))

    def stay_even(self, victims: Sequence[Resident]) -> bool:
        """Whether every owner that loses pods of equal priority keeps at least what the newcomer's then has."""
        losses: dict[Claimant, list[Resident]] = {}
        for one in victims:
            if one.priority == self._me.priority and not self._leaves(one):
                losses.setdefault(self._claimant(one), []).append(one)
        return all(self._share(owner, lost, -1) >= self._mine for owner, lost in losses.items())

    def plenty(self, pod: Resident) -> tuple[float, float]:
        """How much the owner and then the services of a pod of equal priority have: those with most yield first."""
        if pod.priority != self._me.priority:
            return 0.0, 0.0
        return self._share(self._claimant(pod), (), 0), self._service_share(pod)

    def _service_share(self, pod: Resident) -> float:
        """The part of the cluster that pods of the same services have, whoever owns them."""
        selectors = [one for one in self._fairness.services.get(pod.namespace, ()) if one and _selects(one, pod)]
        if not selectors:
            return 0.0
        key = (pod.namespace, *sorted(repr(sorted(one.items())) for one in selectors))
        if key not in self._services:
            total: Amounts = {}
            for one in self._settled:
                if one.namespace == pod.namespace and any(_selects(selector, one) for selector in selectors):
                    _add(total, one.demand.requests)
            self._services[key] = self._part(total)
        return self._services[key]

    def _share(self, owner: Claimant, changed: Sequence[Resident], sign: int) -> float:
        """The largest part of any resource that the owner has after the change, by its weight."""
        owned = dict(self._owned.get(owner.uid, {}))
        for one in changed:
            _add(owned, one.demand.requests, sign)
        return self._part(owned) / owner.weight

    def _part(self, amounts: Amounts) -> float:
        return max((amount / self._size[name] for name, amount in amounts.items() if self._size.get(name)), default=0.0)


def _present(fleet: NodeFleet, me: Resident) -> Iterator[Resident]:
    """Who runs here, and who has been promised room, but the newcomer itself."""
    for here in fleet.hosts:
        yield from here.residents
    for waiting in fleet.nominated.values():
        yield from (one for one in waiting if one.key != me.key)


def _selects(selector: Labels, pod: Resident) -> bool:
    return all(pod.labels.get(key) == value for key, value in selector.items())


def _add(total: Amounts, more: Mapping[str, int], sign: int = 1) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + sign * amount
