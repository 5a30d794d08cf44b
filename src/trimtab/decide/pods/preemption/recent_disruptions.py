"""Recent disruptions of pod owners, which limit how many pods owners without a budget can lose."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.budgets.budget import MAX_IN_FLIGHT_TIME

MAX_DISRUPTED_PERCENT = 10
"""Percent of an owner's replicas that may be disrupted at once when it has no budget."""
RECENT_WINDOW = timedelta(hours=1)
POD_EVICTED_REASON = "PodEvicted"
"""The event that our API server records for a pod's owner (`related` is the pod) in one transaction with the eviction."""


class RecentDisruptions(NamedTuple):
    """The recent disruptions of a top-level owner: the Deployment rather than its ReplicaSets."""

    owner: str
    replicas: int = 1
    unreplaced: int = 0
    """Disrupted, and no ready replacement yet."""
    recent: int = 0
    """The number of disruptions in the last hour."""
    leaving_uids: frozenset[str] = frozenset()
    """The uids of pods that still exist and already count as disrupted."""

    @property
    def remaining(self) -> int:
        """How many more may be disrupted now: a tenth of the replicas, at least one, minus the unreplaced ones."""
        return max(0, max(1, -(-MAX_DISRUPTED_PERCENT * self.replicas // 100)) - self.unreplaced)

    @property
    def recent_per_replica(self) -> float:
        return self.recent / max(1, self.replicas)


DisruptionsLookup: TypeAlias = Callable[[str], RecentDisruptions]
"""By the uid of the pods' controller."""


def recent_disruptions_of(
    owner: str, replicas: int, pods: Sequence[Pod], disrupted_at: Mapping[str, datetime], now: datetime
) -> RecentDisruptions:
    """Compute the recent disruptions of an owner; `disrupted_at` maps uids of disrupted pods to the time."""
    disrupted_at = {**_disruption_targets(pods), **disrupted_at}
    recent = [at for at in disrupted_at.values() if now - at < RECENT_WINDOW]
    healthy = [
        pod
        for pod in pods
        if pod.is_ready and pod.metadata.deletion_timestamp is None and pod.metadata.uid not in disrupted_at
    ]
    missing = max(0, replicas - len(healthy))
    leaving = frozenset(pod.metadata.uid for pod in pods if pod.metadata.uid in disrupted_at)
    return RecentDisruptions(
        owner, replicas, min(missing, _count_unreplaced(recent, healthy, now)), len(recent), leaving
    )


def _disruption_targets(pods: Sequence[Pod]) -> dict[str, datetime]:
    """Return terminating pods with the condition DisruptionTarget."""
    found = {}
    for pod in pods:
        condition = next((one for one in pod.status.conditions if one.type == "DisruptionTarget"), None)
        if pod.metadata.deletion_timestamp is not None and condition is not None and condition.status == "True":
            found[pod.metadata.uid] = condition.last_transition_time or pod.metadata.deletion_timestamp
    return found


def _count_unreplaced(disrupted_at: Sequence[datetime], healthy: Sequence[Pod], now: datetime) -> int:
    """Count disruptions without a healthy pod that was created afterwards.

    A disruption that nothing has replaced for long counts no more: on a full cluster, pods of low priority would
    otherwise be protected for ever from pods of high priority.
    """
    in_flight = sorted(
        (at.replace(microsecond=0) for at in disrupted_at if now - at < MAX_IN_FLIGHT_TIME), reverse=True
    )
    created = [pod.metadata.creation_timestamp for pod in healthy if pod.metadata.creation_timestamp is not None]
    return max((i + 1 - sum(at_creation >= at for at_creation in created) for i, at in enumerate(in_flight)), default=0)
