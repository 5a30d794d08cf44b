"""Fair shares among pods of equal priority: each owner's share, and whether a swap makes shares more even."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.decide.pods.affinity.affinity_terms import Labels
from trimtab.decide.pods.fit.requests import Amounts
from trimtab.decide.pods.node_info import PodInfo
from trimtab.decide.pods.node_snapshot import NodeSnapshot

MIN_RUN_TIME, MIN_WAIT_TIME = timedelta(minutes=10), timedelta(minutes=2)


class ShareOwner(NamedTuple):
    """The owner of a share: the top-level owner, for example the Deployment rather than its ReplicaSets."""

    uid: str
    weight: float = 1.0
    """An owner with twice the weight may have twice as much."""


class FairShareInput(NamedTuple):
    """Allows preemption among pods of equal priority when it makes the shares of their owners more even."""

    now: datetime
    waiting_since: datetime
    """Since when the pod has no node."""
    owner_of: Callable[[str], ShareOwner] = ShareOwner
    """Maps the uid of the pods' controller to the owner."""
    services: Mapping[str, Sequence[Labels]] = {}
    """The selectors of services, by namespace: among owners with equal shares, pods of the largest service go first."""


class OwnerShares:
    """Each owner's share of the cluster, and whether a swap of pods makes shares more even.

    After a swap, a victim's owner must still have at least the share that the preemptor's owner then has. So every swap
    raises the smaller of two shares and changes no other, and swaps end while demand stays the same. Swaps in progress
    count as done: leaving pods count for nothing, nominated pods count in full.
    """

    def __init__(
        self, pod_info: PodInfo, fleet: NodeSnapshot, fairness: FairShareInput, is_leaving: Callable[[PodInfo], bool]
    ) -> None:
        self._pod, self._fairness, self._is_leaving = pod_info, fairness, is_leaving
        self._allocatable: Amounts = {}
        self._requests_by_owner: dict[str, Amounts] = {}
        self._service_shares: dict[tuple[str, ...], float] = {}
        self._running_pods = [one for one in _running_and_nominated(fleet, pod_info) if not is_leaving(one)]
        for node_info in fleet.nodes:
            _add(self._allocatable, node_info.allocatable)
        for one in self._running_pods:
            _add(self._requests_by_owner.setdefault(self._owner_of(one).uid, {}), one.resources.requests)
        self._own_share = self._share_after(self._owner_of(pod_info), (pod_info,), 1)

    def _owner_of(self, pod: PodInfo) -> ShareOwner:
        return self._fairness.owner_of(pod.traits.controller_uid) if pod.traits.controller_uid else ShareOwner("")

    def can_be_victim(self, pod: PodInfo) -> bool:
        """Return whether this pod of equal priority can be a victim at all."""
        if pod.priority != self._pod.priority or self._fairness.now - self._fairness.waiting_since < MIN_WAIT_TIME:
            return False
        if self._is_leaving(pod):
            return True
        started, owner, own = pod.pod.status.start_time, self._owner_of(pod).uid, self._owner_of(self._pod).uid
        if not owner or not own or owner == own:
            return False
        if started is None or self._fairness.now - started < MIN_RUN_TIME:
            return False
        return self.keeps_shares_fair((pod,))

    def keeps_shares_fair(self, victims: Sequence[PodInfo]) -> bool:
        """Return whether every owner that loses pods of equal priority keeps at least the preemptor's new share."""
        losses: dict[ShareOwner, list[PodInfo]] = {}
        for one in victims:
            if one.priority == self._pod.priority and not self._is_leaving(one):
                losses.setdefault(self._owner_of(one), []).append(one)
        return all(self._share_after(owner, lost, -1) >= self._own_share for owner, lost in losses.items())

    def shares_of(self, pod: PodInfo) -> tuple[float, float]:
        """Return the shares of the pod's owner and of its services; victims are taken from the largest first."""
        if pod.priority != self._pod.priority:
            return 0.0, 0.0
        return self._share_after(self._owner_of(pod), (), 0), self._service_share(pod)

    def _service_share(self, pod: PodInfo) -> float:
        """Return the share of the cluster that pods of the same services have, whatever their owners."""
        selectors = [one for one in self._fairness.services.get(pod.namespace, ()) if one and _selects(one, pod)]
        if not selectors:
            return 0.0
        key = (pod.namespace, *sorted(repr(sorted(one.items())) for one in selectors))
        if key not in self._service_shares:
            total: Amounts = {}
            for one in self._running_pods:
                if one.namespace == pod.namespace and any(_selects(selector, one) for selector in selectors):
                    _add(total, one.resources.requests)
            self._service_shares[key] = self._dominant_share(total)
        return self._service_shares[key]

    def _share_after(self, owner: ShareOwner, changed: Sequence[PodInfo], sign: int) -> float:
        """Return the owner's dominant share after the change, divided by its weight."""
        owned = dict(self._requests_by_owner.get(owner.uid, {}))
        for one in changed:
            _add(owned, one.resources.requests, sign)
        return self._dominant_share(owned) / owner.weight

    def _dominant_share(self, amounts: Amounts) -> float:
        return max(
            (amount / self._allocatable[name] for name, amount in amounts.items() if self._allocatable.get(name)),
            default=0.0,
        )


def _running_and_nominated(fleet: NodeSnapshot, pod_info: PodInfo) -> Iterator[PodInfo]:
    """Yield all running and nominated pods except the preemptor."""
    for node_info in fleet.nodes:
        yield from node_info.pods
    for nominated in fleet.nominated.values():
        yield from (one for one in nominated if one.key != pod_info.key)


def _selects(selector: Labels, pod: PodInfo) -> bool:
    return all(pod.labels.get(key) == value for key, value in selector.items())


def _add(total: Amounts, more: Mapping[str, int], sign: int = 1) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + sign * amount
