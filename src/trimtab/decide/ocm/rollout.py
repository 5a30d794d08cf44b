"""Which clusters get a changed work now, and which wait until others have it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.duration import parse_duration
from trimtab.api.kinds.ocm_work import MandatoryDecisionGroup, RolloutOptions, RolloutStrategy
from trimtab.api.value import IntOrString

TO_APPLY, PROGRESSING, SUCCEEDED, FAILED, TIMED_OUT = "ToApply", "Progressing", "Succeeded", "Failed", "TimeOut"


class RolloutState(NamedTuple):
    """The rollout status of one cluster, and since when."""

    status: str = TO_APPLY
    since: datetime | None = None


class RolloutGroup(NamedTuple):
    """A decision group: its clusters, name and number."""

    name: str
    number: int
    clusters: tuple[str, ...]


class RolloutPlan(NamedTuple):
    """The clusters to apply now, and when to check again because a deadline or a soak time ends."""

    apply: tuple[str, ...] = ()
    done: bool = True
    recheck_at: datetime | None = None


def parse_seconds(text: str) -> float | None:
    """Parse `2h`, `90m`, `360s`; None for no limit."""
    return None if text == "None" else parse_duration(text).total_seconds()


def resolve_share(wanted: IntOrString | None, total: int) -> int | None:
    """A number, or a percentage of the total rounded up; None when it is invalid or out of range."""
    if isinstance(wanted, str):
        digits = wanted.removesuffix("%")
        if not digits.isdigit():
            return None
        wanted = -(-int(digits) * total // 100) if wanted.endswith("%") else int(digits)
    return wanted if wanted is not None and 0 < wanted <= total else None


def plan_rollout(
    batches: Sequence[RolloutGroup], states: Mapping[str, RolloutState], strategy: RolloutStrategy, now: datetime
) -> RolloutPlan:
    """The next step of a rollout over all clusters of a placement."""
    walk = _RolloutWalk(states, _pace(strategy), now)
    if strategy.type == "Progressive" and strategy.progressive is not None:
        first, rest = split_mandatory(batches, strategy.progressive.mandatory_decision_groups)
        clusters = sorted(cluster for batch in rest for cluster in batch.clusters)
        if walk.group_by_group(first, tolerant=False):
            walk.advance(clusters, resolve_share(strategy.progressive.max_concurrency, len(clusters)) or len(clusters))
    elif strategy.type == "ProgressivePerGroup" and strategy.progressive_per_group is not None:
        first, rest = split_mandatory(batches, strategy.progressive_per_group.mandatory_decision_groups)
        if walk.group_by_group(first, tolerant=False):
            walk.group_by_group(rest, tolerant=True)
    else:
        clusters = sorted(cluster for batch in batches for cluster in batch.clusters)
        walk.advance(clusters, len(clusters), stops=False)
    return walk.result(sum(len(batch.clusters) for batch in batches))


def split_mandatory(
    batches: Sequence[RolloutGroup], mandatory: Sequence[MandatoryDecisionGroup]
) -> tuple[list[RolloutGroup], list[RolloutGroup]]:
    """The mandatory groups, in the order of the strategy, and the others."""
    first: list[RolloutGroup] = []
    for mandatory_group in mandatory:
        for batch in batches:
            named = bool(mandatory_group.group_name) and mandatory_group.group_name == batch.name
            numbered = not mandatory_group.group_name and mandatory_group.group_index == batch.number
            if (named or numbered) and batch not in first:
                first.append(batch)
    return first, [batch for batch in batches if batch not in first]


def _pace(strategy: RolloutStrategy) -> RolloutOptions:
    chosen = {
        "Progressive": strategy.progressive,
        "ProgressivePerGroup": strategy.progressive_per_group,
    }.get(strategy.type, strategy.all)
    return chosen or RolloutOptions(progress_deadline="None")


class _RolloutWalk:
    """Walks through the clusters once and collects what to apply."""

    def __init__(self, states: Mapping[str, RolloutState], pace: RolloutOptions, now: datetime) -> None:
        self._standings = states
        self._pace = pace
        self._now = now
        self._deadline = parse_seconds(pace.progress_deadline or "None")
        self._soak = parse_seconds(pace.min_success_time) or 0.0
        self._apply: list[str] = []
        self._finished = 0
        self._ends: list[datetime] = []

    def group_by_group(self, batches: Sequence[RolloutGroup], *, tolerant: bool) -> bool:
        """Whether all of them are done, apart from tolerated failures."""
        return all(self.advance(sorted(batch.clusters), len(batch.clusters), tolerant=tolerant) for batch in batches)

    def advance(self, clusters: Sequence[str], slots: int, *, tolerant: bool = True, stops: bool = True) -> bool:
        """Fill the free slots; returns whether nothing is left to do here."""
        allowed = (resolve_share(self._pace.max_failures, len(clusters)) or 0) if tolerant else 0
        statuses = {cluster: self._status(cluster) for cluster in clusters}
        failures = sum(status in (FAILED, TIMED_OUT) for status in statuses.values())
        self._finished += sum(status in (SUCCEEDED, FAILED, TIMED_OUT) for status in statuses.values())
        waiting = [cluster for cluster, status in statuses.items() if status == TO_APPLY]
        busy = sum(status == PROGRESSING for status in statuses.values())
        if failures > allowed and stops:
            return False
        self._apply += waiting[: max(0, slots - busy)]
        return not waiting and not busy

    def _status(self, cluster: str) -> str:
        """Applies deadlines and soak times: a success that is too recent still counts as progressing."""
        standing = self._standings.get(cluster, RolloutState())
        since = standing.since or self._now
        if standing.status in (PROGRESSING, FAILED) and self._deadline is not None:
            end = since + timedelta(seconds=self._deadline)
            if end <= self._now:
                return TIMED_OUT
            self._ends.append(end)
        if standing.status == SUCCEEDED and self._soak:
            end = since + timedelta(seconds=self._soak)
            if end > self._now:
                self._ends.append(end)
                return PROGRESSING
        return standing.status

    def result(self, total: int) -> RolloutPlan:
        done = not self._apply and self._finished == total
        return RolloutPlan(tuple(self._apply), done, min(self._ends, default=None))


def rollout_groups(pages: Iterator[tuple[str, str, Sequence[str]]]) -> list[RolloutGroup]:
    """Decision groups from (name, number as text, clusters) of each PlacementDecision."""
    found: dict[tuple[int, str], list[str]] = {}
    for name, number, clusters in pages:
        found.setdefault((int(number) if number.isdigit() else 0, name), []).extend(clusters)
    return [RolloutGroup(name, number, tuple(clusters)) for (number, name), clusters in sorted(found.items())]
