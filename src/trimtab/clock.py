"""Clocks and the virtual event loop of the shell. The core reads no clock: the time is a parameter."""

import asyncio
import faulthandler
import selectors
import sys
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar

from trimtab.errors import VirtualRunStuck

T = TypeVar("T")
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    def now(self) -> datetime: ...


class WallClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class SteadyClock:
    """A clock for durations: it starts with the time of another clock and does not follow when that one is set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start: tuple[datetime, float] | None = None

    def now(self) -> datetime:
        elapsed = asyncio.get_running_loop().time()
        if self._start is None:
            self._start = (self._clock.now(), elapsed)
        began, at = self._start
        return began + timedelta(seconds=elapsed - at)


def timestamp(moment: datetime) -> str:
    """The time as Kubernetes writes it: UTC, whole seconds."""
    return _format_second(int(moment.timestamp() // 1))


@lru_cache(maxsize=1024)
def _format_second(second: int) -> str:
    """Cached: many objects are written in the same second, and formatting costs more than the lookup."""
    return f"{datetime.fromtimestamp(second, UTC).isoformat()[:19]}Z"


IDLE_POLL_SECONDS = 0.1
"""Real seconds to sleep when no timer is scheduled: only another thread can wake the loop then."""
CLOSING_SECONDS = 10.0
"""Real seconds for clean-up after the limit of a virtual run has passed."""


class _VirtualSelector(selectors.DefaultSelector):
    """A selector that advances the clock of its loop to the next timer instead of sleeping."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        self.loop.raise_if_stuck()
        ready: list[Any] = super().select(IDLE_POLL_SECONDS if timeout is None else 0)
        if not ready and timeout:
            self.loop.elapsed += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time: waiting costs no real time, and timers fire at exact times.

    A test on virtual time that never ends would hang for ever. With a `timeout` in real seconds the loop raises
    `VirtualRunStuck` when they have passed.
    """

    def __init__(self, timeout: float | None = None) -> None:
        selector = _VirtualSelector()
        selector.loop = self
        self.elapsed = 0.0
        self._timeout = timeout
        self._started_at = time.monotonic()
        self._last_advance = (0.0, self._started_at)
        super().__init__(selector)

    def time(self) -> float:
        return self.elapsed

    def raise_if_stuck(self) -> None:
        """Raise `VirtualRunStuck` when the limit in real time has passed."""
        if self._timeout is None:
            return
        now = time.monotonic()
        if self.elapsed != self._last_advance[0]:
            self._last_advance = (self.elapsed, now)
        if now - self._started_at > self._timeout:
            error = VirtualRunStuck(
                self._timeout, self.elapsed, is_time_stopped=now - self._last_advance[1] > self._timeout / 2
            )
            self._started_at, self._timeout = now, CLOSING_SECONDS  # the rest may clean up, within a limit
            raise error


class LoopClock:
    """The time of the running event loop, virtual or real, counted from `start`."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=asyncio.get_running_loop().time())


def run_virtually(coroutine: Coroutine[Any, Any, T], *, timeout: float | None = None) -> T:
    """Run the coroutine on a virtual event loop.

    With a `timeout` it raises `VirtualRunStuck` after that many real seconds. A coroutine that never returns to the loop cannot
    be interrupted: then the process prints its stack and exits.
    """
    if timeout is not None:
        faulthandler.dump_traceback_later(timeout + 3 * CLOSING_SECONDS, exit=True, file=sys.__stderr__ or 2)
    try:
        with asyncio.Runner(loop_factory=partial(VirtualLoop, timeout)) as runner:
            return runner.run(coroutine)
    finally:
        if timeout is not None:
            faulthandler.cancel_dump_traceback_later()
