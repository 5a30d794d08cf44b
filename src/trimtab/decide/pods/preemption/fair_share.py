"""Fair shares among pods of equal priority: each owner's share, and whether a swap makes shares more even."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.decide.pods.affinity.affinity_terms import Labels
from trimtab.decide.pods.fit.requests import Amounts
from trimtab.decide.pods.node_info import Resident
from trimtab.decide.pods.node_snapshot import NodeFleet

LEAST_RUN, LEAST_WAIT = timedelta(minutes=10), timedelta(minutes=2)


class Claimant(NamedTuple):
    """The owner of a share: the top-level owner, for example the Deployment rather than its ReplicaSets."""

    uid: str
    weight: float = 1.0
    """An owner with twice the weight may have twice as much."""


class Fairness(NamedTuple):
    """Allows preemption among pods of equal priority when it makes the shares of their owners more even."""

    now: datetime
    waiting_since: datetime
    """Since when the pod has no node."""
    claimant: Callable[[str], Claimant] = Claimant
    """Maps the uid of the pods' controller to the owner."""
    services: Mapping[str, Sequence[Labels]] = {}
    """The selectors of services, by namespace: among owners with equal shares, pods of the largest service go first."""


class Shares:
    """Each owner's share of the cluster, and whether a swap of pods makes shares more even.

    After a swap, a victim's owner must still have at least the share that the preemptor's owner then has. So every swap
    raises the smaller of two shares and changes no other, and swaps end while demand stays the same. Swaps in progress
    count as done: leaving pods count for nothing, nominated pods count in full.
    """

    def __init__(self, me: Resident, fleet: NodeFleet, fairness: Fairness, leaves: Callable[[Resident], bool]) -> None:
        self._me, self._fairness, self._leaves = me, fairness, leaves
        self._size: Amounts = {}
        self._owned: dict[str, Amounts] = {}
        self._services: dict[tuple[str, ...], float] = {}
        self._settled = [one for one in _present(fleet, me) if not leaves(one)]
        for node_info in fleet.hosts:
            _add(self._size, node_info.allocatable)
        for one in self._settled:
            _add(self._owned.setdefault(self._claimant(one).uid, {}), one.demand.requests)
        self._mine = self._share(self._claimant(me), (me,), 1)

    def _claimant(self, pod: Resident) -> Claimant:
        return self._fairness.claimant(pod.traits.controller) if pod.traits.controller else Claimant("")

    def may_yield(self, pod: Resident) -> bool:
        """Return whether this pod of equal priority can be a victim at all."""
        if pod.priority != self._me.priority or self._fairness.now - self._fairness.waiting_since < LEAST_WAIT:
            return False
        if self._leaves(pod):
            return True
        started, owner, own = pod.pod.status.start_time, self._claimant(pod).uid, self._claimant(self._me).uid
        if not owner or not own or owner == own:
            return False
        if started is None or self._fairness.now - started < LEAST_RUN:
            return False
        return self.stay_even((pod,))

    def stay_even(self, victims: Sequence[Resident]) -> bool:
        """Return whether every owner that loses pods of equal priority keeps at least the preemptor's new share."""
        losses: dict[Claimant, list[Resident]] = {}
        for one in victims:
            if one.priority == self._me.priority and not self._leaves(one):
                losses.setdefault(self._claimant(one), []).append(one)
        return all(self._share(owner, lost, -1) >= self._mine for owner, lost in losses.items())

    def plenty(self, pod: Resident) -> tuple[float, float]:
        """Return the shares of the pod's owner and of its services; victims are taken from the largest first."""
        if pod.priority != self._me.priority:
            return 0.0, 0.0
        return self._share(self._claimant(pod), (), 0), self._service_share(pod)

    def _service_share(self, pod: Resident) -> float:
        """Return the share of the cluster that pods of the same services have, whatever their owners."""
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
        """Return the owner's dominant share after the change, divided by its weight."""
        owned = dict(self._owned.get(owner.uid, {}))
        for one in changed:
            _add(owned, one.demand.requests, sign)
        return self._part(owned) / owner.weight

    def _part(self, amounts: Amounts) -> float:
        return max((amount / self._size[name] for name, amount in amounts.items() if self._size.get(name)), default=0.0)


def _present(fleet: NodeFleet, me: Resident) -> Iterator[Resident]:
    """Yield all running and nominated pods except the preemptor."""
    for node_info in fleet.hosts:
        yield from node_info.residents
    for nominated in fleet.nominated.values():
        yield from (one for one in nominated if one.key != me.key)


def _selects(selector: Labels, pod: Resident) -> bool:
    return all(pod.labels.get(key) == value for key, value in selector.items())


def _add(total: Amounts, more: Mapping[str, int], sign: int = 1) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + sign * amount
