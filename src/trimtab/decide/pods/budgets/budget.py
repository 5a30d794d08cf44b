"""What a disruption budget over pods allows now: by the number of healthy pods, and by its rate over time."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.value import IntOrString

DELETION_DEADLINE = timedelta(minutes=2)
"""How long a granted disruption counts before the pod must be terminating."""
MAX_IN_FLIGHT_TIME = timedelta(minutes=10)
"""How long a disruption without a replacement counts as in flight."""


class OwnerController(NamedTuple):
    """An owner of pods that defines how many there should be."""

    uid: str
    kind: str
    replicas: int
    controller_uid: str = ""
    """Its own controller: the Deployment above a ReplicaSet."""


class CoveredPod(NamedTuple):
    """The fields of a selected pod that a budget reads."""

    name: str
    ready: bool = False
    terminating: bool = False
    controller: str = ""
    """The controller's kind and name (`ReplicaSet/web-1`), for messages; empty without a controller."""
    controller_uid: str = ""


class BudgetLimit(NamedTuple):
    """The limit of a budget; at most one of the two is set."""

    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None

    @property
    def follows_scale(self) -> bool:
        """Whether it counts against the replicas of the controllers, not against the existing pods."""
        return self.max_unavailable is not None or _is_percentage(self.min_available)

    def desired_healthy(self, expected: int) -> int:
        """Return how many pods must stay healthy out of `expected`."""
        if self.max_unavailable is not None:
            return max(0, expected - scaled_value(self.max_unavailable, expected))
        return scaled_value(self.min_available, expected) if self.min_available is not None else 0


class BudgetAssessment(NamedTuple):
    """The computed values of one budget at one moment."""

    expected: int
    desired_healthy: int
    current_healthy: int
    allowed: int
    disrupted: dict[str, datetime]
    """Granted disruptions that have not expired."""
    recheck_at: datetime | None
    """When the first of them expires."""


class UnknownScale(NamedTuple):
    """The budget cannot be computed, so it allows nothing."""

    message: str


class RateWindow(NamedTuple):
    """At most `disruptions` in any window of length `period`; `recent` are the accepted ones, oldest first."""

    disruptions: int
    period: timedelta
    recent: tuple[datetime, ...] = ()

    def count_in_window(self, now: datetime) -> int:
        now = self.monotonic_now(now)
        return sum(now - self.period < at for at in self.recent)

    def remaining(self, now: datetime) -> int:
        return max(0, self.disruptions - self.count_in_window(now))

    def next_allowed_at(self, now: datetime) -> datetime:
        """Return the first moment at which one more is allowed."""
        if self.remaining(now) > 0:
            return now
        return self.recent[-self.disruptions] + self.period

    def with_disruption(self, now: datetime) -> "RateWindow":
        """Return the rate after one more disruption; only the times that still matter are kept."""
        return self._replace(recent=(*self.recent, self.monotonic_now(now))[-self.disruptions :])

    def without_remaining(self, now: datetime) -> "RateWindow":
        """Return the rate after all disruptions that it allows now."""
        rate = self
        while rate.remaining(now):
            rate = rate.with_disruption(now)
        return rate

    def monotonic_now(self, now: datetime) -> datetime:
        """Return the time for this rate, which never goes back: a clock that steps back must not open the window."""
        return max(now, self.recent[-1]) if self.recent else now


def scaled_value(value: IntOrString, total: int) -> int:
    """Return a count as it is, a percentage of `total` rounded up."""
    if isinstance(value, str) and _is_percentage(value):
        return -(-int(value[:-1]) * total // 100)
    return int(value)


def _is_percentage(value: IntOrString | None) -> bool:
    return isinstance(value, str) and value.endswith("%")


def assess(
    limit: BudgetLimit,
    pods: Sequence[CoveredPod],
    controllers: Mapping[str, OwnerController],
    disrupted: Mapping[str, datetime],
    now: datetime,
) -> BudgetAssessment | UnknownScale:
    """Compute what the budget allows; every pod it selects counts, whatever its phase."""
    expected = _expected_count(limit, pods, controllers)
    if isinstance(expected, UnknownScale):
        return expected
    desired = limit.desired_healthy(expected)
    healthy = sum(_is_healthy(pod, disrupted, now) for pod in pods)
    unexpired = _unexpired_grants(pods, disrupted, now)
    return BudgetAssessment(
        expected=expected,
        desired_healthy=desired,
        current_healthy=healthy,
        allowed=max(0, healthy - desired) if expected > 0 else 0,
        disrupted=unexpired,
        recheck_at=min(unexpired.values()) + DELETION_DEADLINE if unexpired else None,
    )


def _expected_count(
    limit: BudgetLimit, pods: Sequence[CoveredPod], controllers: Mapping[str, OwnerController]
) -> int | UnknownScale:
    if limit.follows_scale:
        return expected_pods(pods, controllers)
    return len(pods) if limit.min_available is not None else 0


def expected_pods(pods: Iterable[CoveredPod], controllers: Mapping[str, OwnerController]) -> int | UnknownScale:
    """Return the replicas of the distinct controllers of these pods; a pod without a controller adds none."""
    replicas: dict[str, int] = {}
    for pod in pods:
        if not pod.controller_uid:
            continue
        owner = scale_target(pod.controller_uid, controllers)
        if owner is None:
            return UnknownScale(f'found no controllers for pod "{pod.name}" (it names {pod.controller})')
        replicas[owner.uid] = owner.replicas
    return sum(replicas.values())


def scale_target(uid: str, controllers: Mapping[str, OwnerController]) -> OwnerController | None:
    """Return the owner whose replicas count: the Deployment of a ReplicaSet, otherwise the controller itself."""
    owner = controllers.get(uid)
    if owner is not None and owner.kind == "ReplicaSet" and owner.controller_uid:
        above = controllers.get(owner.controller_uid)
        if above is not None and above.kind == "Deployment":
            return above
    return owner


def _is_healthy(pod: CoveredPod, disrupted: Mapping[str, datetime], now: datetime) -> bool:
    if not pod.ready or pod.terminating:
        return False
    granted = disrupted.get(pod.name)
    # Exactly at the deadline the entry is still kept, but no longer counts against the pod.
    return granted is None or granted + DELETION_DEADLINE <= now


def _unexpired_grants(
    pods: Iterable[CoveredPod], disrupted: Mapping[str, datetime], now: datetime
) -> dict[str, datetime]:
    not_terminating = {pod.name for pod in pods if not pod.terminating}
    return {
        name: granted
        for name, granted in disrupted.items()
        if name in not_terminating and granted + DELETION_DEADLINE >= now
    }
