"""Test oracle for disruption budgets: an independent model that records evictions one after the other."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple


class RateWindow(NamedTuple):
    """At most `max_disruptions` disruptions in any window of `seconds` seconds."""

    max_disruptions: int
    seconds: int

    def assert_not_exceeded(self, granted_at: list[datetime]) -> None:
        for at in granted_at:
            inside = [other for other in granted_at if at - timedelta(seconds=self.seconds) < other <= at]
            assert len(inside) <= self.max_disruptions, (
                f"{len(inside)} in {self.seconds} s, {self.max_disruptions} allowed"
            )


class BudgetRules(NamedTuple):
    """The limits of a budget, and the pods to which they apply."""

    is_disruption_budget: bool = False
    selected_pods: str = "all"
    min_healthy: int | None = None
    window: RateWindow | None = None
    max_concurrent: int | None = None

    def selects(self, number: int) -> bool:
        return self.selected_pods == "all" or (number % 2 == 0) == (self.selected_pods == "even")


class BudgetModel:
    """Model of one budget: the last synced status, and the disruptions charged since."""

    def __init__(self, rules: BudgetRules) -> None:
        self.rules = rules
        self.disruptions_allowed = self.last_healthy = self.in_flight = 0
        self.granted_at: list[datetime] = []

    def sync_status(self, healthy: int) -> None:
        """Set the status as a disruption controller does."""
        self.last_healthy, self.in_flight = healthy, 0
        self.disruptions_allowed = max(0, healthy - (self.rules.min_healthy or 0))

    def exempts_unhealthy(self, healthy: int) -> bool:
        """Whether an unhealthy pod may be evicted without charging the budget."""
        return min(self.last_healthy, healthy) >= (self.rules.min_healthy or 0) > 0

    def check(self, healthy: int, now: datetime) -> tuple[bool, int]:
        """Whether the budget refuses, and the number of seconds until time alone changes that."""
        promise = self.rules
        strong = promise.min_healthy is None or self._remaining(healthy) > 0
        free = promise.max_concurrent is None or self.in_flight < promise.max_concurrent
        wait = self.seconds_until_allowed(now)
        return not strong or not free or wait > 0, wait

    def seconds_until_allowed(self, now: datetime) -> int:
        """Seconds until the rate allows one more disruption."""
        window = self.rules.window
        if window is None or len(self.granted_at) < window.max_disruptions:
            return 0
        opens = self.granted_at[-window.max_disruptions] + timedelta(seconds=window.seconds)
        return max(0, ceil((opens - now).total_seconds()))

    def next_allowed_at(self) -> datetime | None:
        """The time at which the rate allows one more disruption; None when it does now."""
        window = self.rules.window
        if window is None or len(self.granted_at) < window.max_disruptions:
            return None
        return self.granted_at[-window.max_disruptions] + timedelta(seconds=window.seconds)

    def _remaining(self, healthy: int) -> int:
        """Disruptions left since the last sync; fewer when fewer pods are healthy now."""
        return min(self.disruptions_allowed, min(self.last_healthy, healthy) - (self.rules.min_healthy or 0))

    def debit(self, healthy: int, now: datetime) -> None:
        self.disruptions_allowed = self._remaining(healthy) - 1
        self.in_flight += 1
        self.granted_at.append(max([now, *self.granted_at[-1:]]))  # timestamps of one budget never decrease


class BudgetOracle:
    """All budgets over the same pods; `ready` maps the number of a pod to its readiness."""

    def __init__(self, rules: Iterable[BudgetRules], quota: RateWindow) -> None:
        self.budgets = [BudgetModel(promise) for promise in rules]
        self.quota = BudgetModel(BudgetRules(window=quota))
        """The quota of one component over all its disruptions."""

    def sync_status(self, ready: Mapping[int, bool]) -> None:
        for account in self.budgets:
            account.sync_status(count_healthy(account, ready))

    def check_eviction(self, number: int, ready: Mapping[int, bool], now: datetime, *, quota: bool) -> tuple[bool, int]:
        """Whether the eviction is refused, and for how many seconds at least."""
        applicable = [
            one
            for one in self._budgets_for(number)
            if ready[number] or not one.exempts_unhealthy(count_healthy(one, ready))
        ]
        results = [one.check(count_healthy(one, ready), now) for one in applicable]
        if not any(no for no, _ in results) and quota:
            results = [(self.quota.seconds_until_allowed(now) > 0, self.quota.seconds_until_allowed(now))]
        return any(no for no, _ in results), max((wait for no, wait in results if no), default=0)

    def record_eviction(self, number: int, ready: dict[int, bool], now: datetime, *, quota: bool) -> None:
        """Evict the pod: charge every budget that applies, and remove the pod."""
        no, _ = self.check_eviction(number, ready, now, quota=quota)
        assert not no, f"pod {number} was evicted although a budget refuses it"
        for account in self._budgets_for(number):
            if ready[number] or not account.exempts_unhealthy(count_healthy(account, ready)):
                account.debit(count_healthy(account, ready), now)
        if quota:
            self.quota.debit(0, now)
        del ready[number]

    def allows_all(self, numbers: Iterable[int], ready: Mapping[int, bool], now: datetime) -> bool:
        """Whether all these pods may be evicted in one request."""
        trial, left = deepcopy(self), dict(ready)
        for number in numbers:
            if trial.check_eviction(number, left, now, quota=False)[0]:
                return False
            trial.record_eviction(number, left, now, quota=False)
        return True

    def _budgets_for(self, number: int) -> list[BudgetModel]:
        return [one for one in self.budgets if one.rules.selects(number)]


def count_healthy(budget: BudgetModel, ready: Mapping[int, bool]) -> int:
    return sum(well for number, well in ready.items() if budget.rules.selects(number))
