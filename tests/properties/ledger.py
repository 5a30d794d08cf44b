"""What budgets allow, reckoned a second time and apart from the code: every grant is entered, one after the other."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple


class Window(NamedTuple):
    """At most so many disruptions in any window of so many seconds."""

    most: int
    seconds: int

    def hold(self, granted: list[datetime]) -> None:
        for at in granted:
            inside = [other for other in granted if at - timedelta(seconds=self.seconds) < other <= at]
            assert len(inside) <= self.most, f"{len(inside)} in {self.seconds} s, {self.most} allowed"


class Promise(NamedTuple):
    """What a budget promises to whom: strength, rate, and how many may be on their way at once."""

    ours: bool = False
    whom: str = "all"
    floor: int | None = None
    window: Window | None = None
    at_once: int | None = None

    def covers(self, number: int) -> bool:
        return self.whom == "all" or (number % 2 == 0) == (self.whom == "even")


class Account:
    """One budget as it was last counted, and what was taken from it since."""

    def __init__(self, promise: Promise) -> None:
        self.promise = promise
        self.credit = self.seen = self.flying = 0
        self.stamps: list[datetime] = []

    def count(self, healthy: int) -> None:
        """What a controller writes when it looks."""
        self.seen, self.flying = healthy, 0
        self.credit = max(0, healthy - (self.promise.floor or 0))

    def exempts(self, healthy: int) -> bool:
        """Whether a pod that is ill may go for nothing."""
        return min(self.seen, healthy) >= (self.promise.floor or 0) > 0

    def refuses(self, healthy: int, now: datetime) -> tuple[bool, int]:
        """Whether it says no, and how many seconds until time alone changes that."""
        promise = self.promise
        strong = promise.floor is None or self._spare(healthy) > 0
        free = promise.at_once is None or self.flying < promise.at_once
        wait = self.wait(now)
        return not strong or not free or wait > 0, wait

    def wait(self, now: datetime) -> int:
        """Seconds until the rate allows one more."""
        window = self.promise.window
        if window is None or len(self.stamps) < window.most:
            return 0
        opens = self.stamps[-window.most] + timedelta(seconds=window.seconds)
        return max(0, ceil((opens - now).total_seconds()))

    def opens(self) -> datetime | None:
        """When the rate has something left again."""
        window = self.promise.window
        if window is None or len(self.stamps) < window.most:
            return None
        return self.stamps[-window.most] + timedelta(seconds=window.seconds)

    def _spare(self, healthy: int) -> int:
        """What the last count left, or less when fewer are well by now."""
        return min(self.credit, min(self.seen, healthy) - (self.promise.floor or 0))

    def debit(self, healthy: int, now: datetime) -> None:
        self.credit = self._spare(healthy) - 1
        self.flying += 1
        self.stamps.append(max([now, *self.stamps[-1:]]))  # time never runs backwards in one ledger


class Ledger:
    """All budgets over the same pods; `ready` says of each pod, by number, whether it is well."""

    def __init__(self, promises: Iterable[Promise], quota: Window) -> None:
        self.accounts = [Account(promise) for promise in promises]
        self.quota = Account(Promise(window=quota))
        """What one component may disrupt in all."""

    def count(self, ready: Mapping[int, bool]) -> None:
        for account in self.accounts:
            account.count(healthy(account, ready))

    def verdict(self, number: int, ready: Mapping[int, bool], now: datetime, *, quota: bool) -> tuple[bool, int]:
        """Whether the pod must stay, and for how long at least."""
        asked = [one for one in self._over(number) if ready[number] or not one.exempts(healthy(one, ready))]
        answers = [one.refuses(healthy(one, ready), now) for one in asked]
        if not any(no for no, _ in answers) and quota:
            answers = [(self.quota.wait(now) > 0, self.quota.wait(now))]
        return any(no for no, _ in answers), max((wait for no, wait in answers if no), default=0)

    def enter(self, number: int, ready: dict[int, bool], now: datetime, *, quota: bool) -> None:
        """The pod goes: every budget that is asked pays, and it is well no longer."""
        no, _ = self.verdict(number, ready, now, quota=quota)
        assert not no, f"pod {number} went, and a budget says no"
        for account in self._over(number):
            if ready[number] or not account.exempts(healthy(account, ready)):
                account.debit(healthy(account, ready), now)
        if quota:
            self.quota.debit(0, now)
        del ready[number]

    def allows_all(self, numbers: Iterable[int], ready: Mapping[int, bool], now: datetime) -> bool:
        """Whether these may go in one step."""
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
