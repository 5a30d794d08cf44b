"""What owners of pods have borne lately, so that those without a budget are not asked for more than their part."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from trimtab.api.kinds.native.pod import Pod
from trimtab.decide.pods.budgets.budget import IN_FLIGHT_AT_MOST

SHARE = 10
"""Percent of an owner's replicas that may be on their way at once, when no budget says how many."""
LATELY = timedelta(hours=1)
EVICTED = "PodEvicted"
"""The event by which our API server tells the owner of a pod, which is `related`, of its eviction, in one step with it."""


class Burden(NamedTuple):
    """How an owner stands, seen from the top: the Deployment rather than its ReplicaSets."""

    owner: str
    replicas: int = 1
    down: int = 0
    """Disrupted, and not yet ready again."""
    lately: int = 0
    """Disruptions in the last hour."""
    leaving: frozenset[str] = frozenset()
    """Pods, by uid, that are still there and counted as down already."""

    @property
    def spare(self) -> int:
        """How many more may be disrupted now: of a tenth, but at least one, those that are not down already."""
        return max(0, max(1, -(-SHARE * self.replicas // 100)) - self.down)

    @property
    def per_replica(self) -> float:
        return self.lately / max(1, self.replicas)


Burdens: TypeAlias = Callable[[str], Burden]
"""By the uid of the controller that pods name."""


def burden(owner: str, replicas: int, pods: Sequence[Pod], ends: Mapping[str, datetime], now: datetime) -> Burden:
    """How an owner of these pods stands; `ends` are the uids of pods that were disrupted, and when."""
    ends = {**_ending(pods), **ends}
    recent = [at for at in ends.values() if now - at < LATELY]
    well = [
        pod for pod in pods if pod.ready and pod.metadata.deletion_timestamp is None and pod.metadata.uid not in ends
    ]
    missing = max(0, replicas - len(well))
    leaving = frozenset(pod.metadata.uid for pod in pods if pod.metadata.uid in ends)
    return Burden(owner, replicas, min(missing, _unreplaced(recent, well, now)), len(recent), leaving)


def _ending(pods: Sequence[Pod]) -> dict[str, datetime]:
    """Pods that say themselves that somebody ends them."""
    found = {}
    for pod in pods:
        said = next((one for one in pod.status.conditions if one.type == "DisruptionTarget"), None)
        if pod.metadata.deletion_timestamp is not None and said is not None and said.status == "True":
            found[pod.metadata.uid] = said.last_transition_time or pod.metadata.deletion_timestamp
    return found


def _unreplaced(ends: Sequence[datetime], well: Sequence[Pod], now: datetime) -> int:
    """Disruptions for which no pod that was born afterwards is well yet.

    One that nothing has replaced for long counts no more: on a full cluster pods that matter little would else be safe
    for ever from those that matter.
    """
    open_ = sorted((at.replace(microsecond=0) for at in ends if now - at < IN_FLIGHT_AT_MOST), reverse=True)
    births = [pod.metadata.creation_timestamp for pod in well if pod.metadata.creation_timestamp is not None]
    return max((i + 1 - sum(birth >= at for birth in births) for i, at in enumerate(open_)), default=0)
