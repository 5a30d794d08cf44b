"""Which clusters get a changed work now, and which wait until others have it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        slots = resolve_share(strategy.progressive.max_concurrency, len(clusters)) or len(clusters)
        total = sum(len(batch.clusters) for batch in batches)
        if walk.group_by_group(first, tolerates=0):
            walk.advance(clusters, slots, tolerates=walk.tolerated_failures(total))
    elif strategy.type == "ProgressivePerGroup" and strategy.progressive_per_group is not None:
        first, rest = split_mandatory(batches, strategy.progressive_per_group.mandatory_decision_groups)
        if walk.group_by_group(first, tolerates=0):
            walk.group_by_group(rest)
    else:
        clusters = sorted(cluster for batch in batches for cluster in batch.clusters)
        walk.advance(clusters, len(clusters), tolerates=len(clusters))
    return walk.result(cluster for batch in batches for cluster in batch.clusters)


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
        self._ends: list[datetime] = []

    def tolerated_failures(self, total: int) -> int:
        return resolve_share(self._pace.max_failures, total) or 0

    def group_by_group(self, batches: Sequence[RolloutGroup], *, tolerates: int | None = None) -> bool:
        """Whether all of them are done, apart from tolerated failures; None tolerates a share of each group."""
        for batch in batches:
            allowed = self.tolerated_failures(len(batch.clusters)) if tolerates is None else tolerates
            statuses = {cluster: self._status(cluster) for cluster in sorted(batch.clusters)}
            counts = Counter(statuses.values())
            self._apply += [cluster for cluster, status in statuses.items() if status == TO_APPLY]
            if counts[TO_APPLY] or counts[PROGRESSING] or counts[FAILED] + counts[TIMED_OUT] > allowed:
                return False
        return True

    def advance(self, clusters: Sequence[str], slots: int, *, tolerates: int) -> None:
        """Fill the free slots, unless more clusters have failed than are tolerated.

        A failed cluster holds its slot until its deadline: until then it may still recover.
        """
        statuses = {cluster: self._status(cluster) for cluster in clusters}
        counts = Counter(statuses.values())
        if counts[FAILED] + counts[TIMED_OUT] > tolerates:
            return
        waiting = [cluster for cluster, status in statuses.items() if status == TO_APPLY]
        self._apply += waiting[: max(0, slots - counts[PROGRESSING] - counts[FAILED])]

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

    def result(self, clusters: Iterable[str]) -> RolloutPlan:
        """The rollout is done when every cluster has succeeded, also before its soak time ends.

        A tolerated failure lets others go on, no more.
        """
        recheck_at = min(self._ends, default=None)
        done = all(self._standings.get(cluster, RolloutState()).status == SUCCEEDED for cluster in clusters)
        return RolloutPlan(tuple(self._apply), done, recheck_at)


def rollout_groups(pages: Iterator[tuple[str, str, Sequence[str]]]) -> list[RolloutGroup]:
    """Decision groups from (name, number as text, clusters) of each PlacementDecision."""
    found: dict[tuple[int, str], list[str]] = {}
    for name, number, clusters in pages:
        found.setdefault((int(number) if number.isdigit() else 0, name), []).extend(clusters)
    return [RolloutGroup(name, number, tuple(clusters)) for (number, name), clusters in sorted(found.items())]
