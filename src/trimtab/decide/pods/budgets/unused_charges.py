"""Charges of evictions that did not happen, and evictions that were not charged.

On a stock Kubernetes a webhook charges a budget before the API server evicts. The API server may still refuse, for example by a
PodDisruptionBudget; then the pod stays, and its charge must be given back. When no webhook answers, the API server evicts
without a charge; the disruption is then entered afterwards, so that the rate counts it, and an overspent rate can be reported.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from trimtab.api.kinds.disruption import DisruptionBudget, DisruptionBudgetStatus, RecentDisruption
from trimtab.api.kinds.native.pod import Pod

UNUSED_AFTER = timedelta(seconds=30)
"""An API server that evicts does so within the time limit of one request."""
UNCHARGED = "Uncharged"
_EVICTED_BY_API = "EvictionByEvictionAPI"


def without_unused_charges(budget: DisruptionBudget, pods: Iterable[Pod], now: datetime) -> DisruptionBudgetStatus:
    """The status without the charges for pods that were not evicted."""
    status = budget.status
    by_name = {pod.name: pod for pod in pods}
    unused = {
        name
        for name, at in status.disrupted_pods.items()
        if now - at >= UNUSED_AFTER and name in by_name and _is_untouched(by_name[name], at)
    }
    if not unused:
        return status
    rate = status.rate
    if rate is not None:
        recent = _without_last(rate.recent, unused)
        rate = rate.but(recent=recent, in_window=len(recent))
    return status.but(
        disrupted_pods={name: at for name, at in status.disrupted_pods.items() if name not in unused},
        in_flight=tuple(one for one in status.in_flight if one.object not in unused),
        rate=rate,
    )


def _is_untouched(pod: Pod, charged: datetime) -> bool:
    """Whether it is the pod that was charged, and nobody deletes it."""
    created = pod.metadata.creation_timestamp
    return pod.metadata.deletion_timestamp is None and (created is None or created <= charged)


def _without_last(recent: Sequence[RecentDisruption], objects: set[str]) -> tuple[RecentDisruption, ...]:
    """The disruptions without the last one of each object: earlier ones of the same name did happen."""
    kept, pending = [], set(objects)
    for one in reversed(recent):
        if one.object in pending:
            pending.discard(one.object)
        else:
            kept.append(one)
    return tuple(reversed(kept))


def uncharged_evictions(budget: DisruptionBudget, pods: Iterable[Pod]) -> list[Pod]:
    """The pods that are evicted now and were not charged to the budget, though they should have been.

    A pod that was not ready may be evicted without a charge; so only pods that are still ready count. The reason of an
    eviction is unknown here, so a budget for certain reasons is exempt.
    """
    if budget.spec.reasons or budget.status.observed_generation < budget.metadata.generation:
        return []
    status = budget.status
    known = {*status.disrupted_pods, *(one.object for one in status.in_flight)}
    if status.rate is not None:
        known |= {one.object for one in status.rate.recent}
    return [pod for pod in pods if pod.name not in known and _is_evicted(pod)]


def _is_evicted(pod: Pod) -> bool:
    return (
        pod.metadata.deletion_timestamp is not None
        and pod.is_ready
        and any(
            one.type == "DisruptionTarget" and one.status == "True" and one.reason == _EVICTED_BY_API
            for one in pod.status.conditions
        )
    )


def with_uncharged(status: DisruptionBudgetStatus, evicted: Sequence[Pod], now: datetime) -> DisruptionBudgetStatus:
    """The status in which these evictions count against the rate."""
    if status.rate is None or not evicted:
        return status
    added = tuple(RecentDisruption(object=pod.name, at=now, reason=UNCHARGED) for pod in evicted)
    recent = (*status.rate.recent, *added)
    return status.but(rate=status.rate.but(recent=recent, in_window=len(recent)))
