"""What a disruption budget over pods allows right now: its strength in healthy pods, and its rate over time."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.value import IntOrString

DELETION_DEADLINE = timedelta(minutes=2)
"""How long a granted disruption is believed before the pod must really be going."""
IN_FLIGHT_AT_MOST = timedelta(minutes=10)
"""How long a disruption that nothing has made up for still counts as going on."""


class Controller(NamedTuple):
    """What owns pods and says how many there should be."""

    uid: str
    kind: str
    replicas: int
    controller_uid: str = ""
    """Its own controller: the Deployment above a ReplicaSet."""


class CoveredPod(NamedTuple):
    """What a budget needs to know of a pod that it selects."""

    name: str
    ready: bool = False
    terminating: bool = False
    controller: str = ""
    """How people call its controller (`ReplicaSet/web-1`), for messages; empty when nothing manages the pod."""
    controller_uid: str = ""


class Limit(NamedTuple):
    """The strength a budget asks for; at most one of the two is given."""

    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None

    @property
    def follows_scale(self) -> bool:
        """Counted against what the controllers want, not against the pods that happen to exist."""
        return self.max_unavailable is not None or _is_percentage(self.min_available)

    def desired(self, expected: int) -> int:
        """How many pods must stay healthy out of `expected`."""
        if self.max_unavailable is not None:
            return max(0, expected - scaled(self.max_unavailable, expected))
        return scaled(self.min_available, expected) if self.min_available is not None else 0


class Strength(NamedTuple):
    """The arithmetic of one budget at one moment."""

    expected: int
    desired_healthy: int
    current_healthy: int
    allowed: int
    disrupted: dict[str, datetime]
    """Granted disruptions still believed."""
    recheck_at: datetime | None
    """When the first of them stops being believed."""


class Unknown(NamedTuple):
    """The budget cannot be computed, so it allows nothing."""

    message: str


class Rate(NamedTuple):
    """At most `disruptions` in any window of length `period`; `recent` are the accepted ones, oldest first."""

    disruptions: int
    period: timedelta
    recent: tuple[datetime, ...] = ()

    def in_window(self, now: datetime) -> int:
        now = self.moment(now)
        return sum(now - self.period < at for at in self.recent)

    def left(self, now: datetime) -> int:
        return max(0, self.disruptions - self.in_window(now))

    def next_allowed(self, now: datetime) -> datetime:
        """The first moment at which one more is allowed."""
        if self.left(now) > 0:
            return now
        return self.recent[-self.disruptions] + self.period

    def spent(self, now: datetime) -> "Rate":
        """This rate after one more disruption; only what can still matter is remembered."""
        return self._replace(recent=(*self.recent, self.moment(now))[-self.disruptions :])

    def exhausted(self, now: datetime) -> "Rate":
        """This rate when all that it allows now has happened."""
        spent = self
        while spent.left(now):
            spent = spent.spent(now)
        return spent

    def moment(self, now: datetime) -> datetime:
        """When it is by this rate: a clock that stepped back must not open the window, so it never runs backwards."""
        return max(now, self.recent[-1]) if self.recent else now


def scaled(value: IntOrString, total: int) -> int:
    """A count as it is, a percentage of `total` rounded up."""
    if isinstance(value, str) and _is_percentage(value):
        return -(-int(value[:-1]) * total // 100)
    return int(value)


def _is_percentage(value: IntOrString | None) -> bool:
    return isinstance(value, str) and value.endswith("%")


def assess(
    limit: Limit,
    pods: Sequence[CoveredPod],
    controllers: Mapping[str, Controller],
    disrupted: Mapping[str, datetime],
    now: datetime,
) -> Strength | Unknown:
    """What the budget allows; every pod it selects counts, whatever its phase."""
    expected = _expected(limit, pods, controllers)
    if isinstance(expected, Unknown):
        return expected
    desired = limit.desired(expected)
    healthy = sum(_healthy(pod, disrupted, now) for pod in pods)
    believed = _still_believed(pods, disrupted, now)
    return Strength(
        expected=expected,
        desired_healthy=desired,
        current_healthy=healthy,
        allowed=max(0, healthy - desired) if expected > 0 else 0,
        disrupted=believed,
        recheck_at=min(believed.values()) + DELETION_DEADLINE if believed else None,
    )


def _expected(limit: Limit, pods: Sequence[CoveredPod], controllers: Mapping[str, Controller]) -> int | Unknown:
    if limit.follows_scale:
        return expected_pods(pods, controllers)
    return len(pods) if limit.min_available is not None else 0


def expected_pods(pods: Iterable[CoveredPod], controllers: Mapping[str, Controller]) -> int | Unknown:
    """How many pods the distinct controllers of these pods want; a pod that nothing manages adds none."""
    wanted: dict[str, int] = {}
    for pod in pods:
        if not pod.controller_uid:
            continue
        owner = scale_target(pod.controller_uid, controllers)
        if owner is None:
            return Unknown(f'found no controllers for pod "{pod.name}" (it names {pod.controller})')
        wanted[owner.uid] = owner.replicas
    return sum(wanted.values())


def scale_target(uid: str, controllers: Mapping[str, Controller]) -> Controller | None:
    """Whose replicas count: the Deployment for a ReplicaSet that has one, else the controller itself."""
    owner = controllers.get(uid)
    if owner is not None and owner.kind == "ReplicaSet" and owner.controller_uid:
        above = controllers.get(owner.controller_uid)
        if above is not None and above.kind == "Deployment":
            return above
    return owner


def _healthy(pod: CoveredPod, disrupted: Mapping[str, datetime], now: datetime) -> bool:
    if not pod.ready or pod.terminating:
        return False
    granted = disrupted.get(pod.name)
    # Exactly at the deadline the entry is still kept, but no longer counts against the pod.
    return granted is None or granted + DELETION_DEADLINE <= now


def _still_believed(
    pods: Iterable[CoveredPod], disrupted: Mapping[str, datetime], now: datetime
) -> dict[str, datetime]:
    staying = {pod.name for pod in pods if not pod.terminating}
    return {
        name: granted for name, granted in disrupted.items() if name in staying and granted + DELETION_DEADLINE >= now
    }
