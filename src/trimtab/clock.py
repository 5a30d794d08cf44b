"""Time, as the shell sees it. The core never asks for the time: it is handed `now` as data."""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    def now(self) -> datetime: ...


class WallClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class _Leap(selectors.DefaultSelector):
    """A selector that, instead of sleeping, moves its loop's clock to the next deadline."""

    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        ready: list[Any] = super().select(0)
        if not ready and timeout:
            self.loop.elapsed += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which an idle hour costs nothing and always lasts exactly an hour."""

    def __init__(self) -> None:
        selector = _Leap()
        selector.loop = self
        self.elapsed = 0.0
        super().__init__(selector)

    def time(self) -> float:
        return self.elapsed


class LoopClock:
    """The time of the running loop, virtual or not, counted from a fixed `start`."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=asyncio.get_running_loop().time())


def run_virtually(story: Coroutine[Any, Any, T]) -> T:
    """Run `story` on a virtual loop: it sees hours pass, the caller sees milliseconds."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)
