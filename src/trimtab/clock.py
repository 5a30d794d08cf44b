"""Time, as the shell sees it. The core never asks for the time: it is handed `now` as data."""

import asyncio
import faulthandler
import selectors
import sys
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar

from trimtab.errors import Stuck

T = TypeVar("T")
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    def now(self) -> datetime: ...


class WallClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """As Kubernetes writes times: UTC, whole seconds."""
    return _written(int(moment.timestamp() // 1))


@lru_cache(maxsize=1024)
def _written(second: int) -> str:
    """What is written in one second carries the same text; making it costs more than finding it."""
    return f"{datetime.fromtimestamp(second, UTC).isoformat()[:19]}Z"


IDLE_SECONDS = 0.1
"""How long to sleep really when there is nothing to leap to: only another thread can wake us then."""
CLOSING_SECONDS = 10.0


class _Leap(selectors.DefaultSelector):
    """A selector that, instead of sleeping, moves its loop's clock to the next deadline."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        self.loop.hurry()
        ready: list[Any] = super().select(IDLE_SECONDS if timeout is None else 0)
        if not ready and timeout:
            self.loop.elapsed += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which an idle hour costs nothing and always lasts exactly an hour.

    Nothing in it can wait for the wall clock, so nothing in it ends by itself either: with a `patience` in real
    seconds it raises `Stuck` when that is over.
    """

    def __init__(self, patience: float | None = None) -> None:
        selector = _Leap()
        selector.loop = self
        self.elapsed = 0.0
        self._patience = patience
        self._began = time.monotonic()
        self._moved = (0.0, self._began)
        super().__init__(selector)

    def time(self) -> float:
        return self.elapsed

    def hurry(self) -> None:
        """Raise `Stuck` when the patience is over."""
        if self._patience is None:
            return
        now = time.monotonic()
        if self.elapsed != self._moved[0]:
            self._moved = (self.elapsed, now)
        if now - self._began > self._patience:
            stuck = Stuck(self._patience, self.elapsed, stands_still=now - self._moved[1] > self._patience / 2)
            self._began, self._patience = now, CLOSING_SECONDS  # what is left may end in good order, but not for ever
            raise stuck


class LoopClock:
    """The time of the running loop, virtual or not, counted from a fixed `start`."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=asyncio.get_running_loop().time())


def run_virtually(story: Coroutine[Any, Any, T], *, patience: float | None = None) -> T:
    """Run `story` on a virtual loop: it sees hours pass, the caller sees milliseconds.

    With a `patience` it is given up after so many seconds on the wall clock: `Stuck`. A step that never returns to the
    loop cannot be told so; then the process ends, and says where it stood.
    """
    if patience is not None:
        faulthandler.dump_traceback_later(patience + 3 * CLOSING_SECONDS, exit=True, file=sys.__stderr__ or 2)
    try:
        with asyncio.Runner(loop_factory=partial(VirtualLoop, patience)) as runner:
            return runner.run(story)
    finally:
        if patience is not None:
            faulthandler.cancel_dump_traceback_later()
