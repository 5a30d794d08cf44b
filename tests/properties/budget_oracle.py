"""Test oracle for disruption budgets: an independent model that records evictions one after the other."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple


class Window(NamedTuple):
    """At most `max_disruptions` disruptions in any window of `seconds` seconds."""

    most: int
    seconds: int

    def hold(self, granted: list[datetime]) -> None:
        for at in granted:
            inside = [other for other in granted if at - timedelta(seconds=self.seconds) < other <= at]
            assert len(inside) <= self.most, f"{len(inside)} in {self.seconds} s, {self.most} allowed"


class Promise(NamedTuple):
    """The limits of a budget, and the pods to which they apply."""

    ours: bool = False
    whom: str = "all"
    floor: int | None = None
    window: Window | None = None
    at_once: int | None = None

    def covers(self, number: int) -> bool:
        return self.whom == "all" or (number % 2 == 0) == (self.whom == "even")


class Account:
    """Model of one budget: the last synced status, and the disruptions charged since."""

    def __init__(self, promise: Promise) -> None:
        self.promise = promise
        self.credit = self.seen = self.flying = 0
        self.stamps: list[datetime] = []

    def count(self, healthy: int) -> None:
        """Set the status as a disruption controller does."""
        self.seen, self.flying = healthy, 0
        self.credit = max(0, healthy - (self.promise.floor or 0))

    def exempts(self, healthy: int) -> bool:
        """Whether an unhealthy pod may be evicted without charging the budget."""
        return min(self.seen, healthy) >= (self.promise.floor or 0) > 0

    def refuses(self, healthy: int, now: datetime) -> tuple[bool, int]:
        """Whether the budget refuses, and the number of seconds until time alone changes that."""
        promise = self.promise
        strong = promise.floor is None or self._spare(healthy) > 0
        free = promise.at_once is None or self.flying < promise.at_once
        wait = self.wait(now)
        return not strong or not free or wait > 0, wait

    def wait(self, now: datetime) -> int:
        """Seconds until the rate allows one more disruption."""
        window = self.promise.window
        if window is None or len(self.stamps) < window.most:
            return 0
        opens = self.stamps[-window.most] + timedelta(seconds=window.seconds)
        return max(0, ceil((opens - now).total_seconds()))

    def opens(self) -> datetime | None:
        """The time at which the rate allows one more disruption; None when it does now."""
        window = self.promise.window
        if window is None or len(self.stamps) < window.most:
            return None
        return self.stamps[-window.most] + timedelta(seconds=window.seconds)

    def _spare(self, healthy: int) -> int:
        """Disruptions left since the last sync; fewer when fewer pods are healthy now."""
        return min(self.credit, min(self.seen, healthy) - (self.promise.floor or 0))

    def debit(self, healthy: int, now: datetime) -> None:
        self.credit = self._spare(healthy) - 1
        self.flying += 1
        self.stamps.append(max([now, *self.stamps[-1:]]))  # timestamps of one budget never decrease


class Ledger:
    """All budgets over the same pods; `ready` maps the number of a pod to its readiness."""

    def __init__(self, promises: Iterable[Promise], quota: Window) -> None:
        self.accounts = [Account(promise) for promise in promises]
        self.quota = Account(Promise(window=quota))
        """The quota of one component over all its disruptions."""

    def count(self, ready: Mapping[int, bool]) -> None:
        for account in self.accounts:
            account.count(healthy(account, ready))

    def verdict(self, number: int, ready: Mapping[int, bool], now: datetime, *, quota: bool) -> tuple[bool, int]:
        """Whether the eviction is refused, and for how many seconds at least."""
        applicable = [one for one in self._over(number) if ready[number] or not one.exempts(healthy(one, ready))]
        results = [one.refuses(healthy(one, ready), now) for one in applicable]
        if not any(no for no, _ in results) and quota:
            results = [(self.quota.wait(now) > 0, self.quota.wait(now))]
        return any(no for no, _ in results), max((wait for no, wait in results if no), default=0)

    def enter(self, number: int, ready: dict[int, bool], now: datetime, *, quota: bool) -> None:
        """Evict the pod: charge every budget that applies, and remove the pod."""
        no, _ = self.verdict(number, ready, now, quota=quota)
        assert not no, f"pod {number} was evicted although a budget refuses it"
        for account in self._over(number):
            if ready[number] or not account.exempts(healthy(account, ready)):
                account.debit(healthy(account, ready), now)
        if quota:
            self.quota.debit(0, now)
        del ready[number]

    def allows_all(self, numbers: Iterable[int], ready: Mapping[int, bool], now: datetime) -> bool:
        """Whether all these pods may be evicted in one request."""
        trial, left = deepcopy(self), dict(ready)
        for number in numbers:
            if trial.verdict(number, left, now, quota=False)[0]:
                return False
            trial.enter(number, left, now, quota=False)
        return True

    def _over(self, number: int) -> list[Account]:
        return [one for one in self.accounts if one.promise.covers(number)]


def healthy(account: Account, ready: Mapping[int, bool]) -> int:
    return sum(well for number, well in ready.items() if account.promise.covers(number))
