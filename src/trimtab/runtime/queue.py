"""Work queue: keys by rank and age, each at most once, and never while it is being processed."""

import asyncio
import heapq
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_RETRY_SECONDS = 0.005
MAX_RETRY_SECONDS = 300.0


class WorkQueue(Generic[K]):
    """A keyed queue with delays and back-off, on the clock of the running event loop (real or virtual)."""

    def __init__(self, rank: Callable[[K], int] | None = None) -> None:
        self._rank = rank
        self._ready: list[tuple[int, int, K]] = []
        self._queued: dict[K, float] = {}
        """When each key was queued, on a steady clock; the oldest first."""
        self._processing: set[K] = set()
        self._dirty: set[K] = set()
        self._timers: dict[K, tuple[float, asyncio.TimerHandle]] = {}
        self._failures: dict[K, int] = {}
        self._sequence = 0
        self._wakeup = asyncio.Event()
        self._ended = asyncio.Event()

    def __len__(self) -> int:
        return len(self._queued)

    @property
    def is_idle(self) -> bool:
        """Whether no key is queued or being processed; timers may still be set."""
        return not self._queued and not self._processing

    async def wait_until_done(self, concerns: Callable[[K], bool]) -> None:
        """Return when none of these keys is being processed."""
        while any(map(concerns, self._processing)):
            self._ended.clear()
            await self._ended.wait()

    def add(self, key: K) -> None:
        """Queue `key`; adding it again before it is taken has no effect."""
        if key in self._timers:
            self.cancel_timer(key)
        if key in self._processing:
            self._dirty.add(key)
        elif key not in self._queued:
            self._queued[key] = time.monotonic()
            self._sequence += 1
            heapq.heappush(self._ready, (-self._rank(key) if self._rank else 0, self._sequence, key))
            self._wakeup.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Queue `key` after `seconds`; an earlier timer stays in force."""
        loop = asyncio.get_running_loop()
        due = loop.time() + max(0.0, seconds)
        if key in self._timers:
            if self._timers[key][0] <= due:
                return
            self.cancel_timer(key)
        self._timers[key] = (due, loop.call_at(due, self.add, key))

    def cancel_timer(self, key: K) -> None:
        if timer := self._timers.pop(key, None):
            timer[1].cancel()

    def expire_timers(self) -> None:
        """Queue every key that waits for a time, each once: the clock was set, and the times may have passed."""
        for key in list(self._timers):
            self.add(key)

    @property
    def oldest_age(self) -> float:
        """Seconds for which the oldest key has been waiting; 0 if none is."""
        return time.monotonic() - next(iter(self._queued.values())) if self._queued else 0.0

    @property
    def failing_count(self) -> int:
        """Number of keys whose last attempt failed."""
        return len(self._failures)

    def failure_count(self, key: K) -> int:
        return self._failures.get(key, 0)

    def reset_backoff(self, key: K) -> None:
        if key in self._failures:
            del self._failures[key]

    def retry(self, key: K) -> float:
        """Queue `key` after a delay that doubles with each failure; returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        seconds = float(min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(failures, 30)))
        self.add_after(key, seconds)
        return seconds

    def unfinished_keys(self) -> list[K]:
        """The keys that are queued or being processed."""
        return [*self._processing, *self._queued]

    def delays(self) -> list[tuple[K, float]]:
        """The keys that wait for a time, and the seconds left for each."""
        now = asyncio.get_running_loop().time()
        return [(key, max(0.0, due - now)) for key, (due, _) in self._timers.items()]

    async def take(self, limit: int = 1) -> list[K]:
        """Wait for the next keys, at least one and at most `most`; call `done` for each."""
        while not self._ready:
            self._wakeup.clear()
            await self._wakeup.wait()
        taken: list[K] = []
        while self._ready and len(taken) < limit:
            _, _, key = heapq.heappop(self._ready)
            del self._queued[key]
            self._processing.add(key)
            taken.append(key)
        return taken

    def done(self, key: K) -> None:
        self._processing.discard(key)
        self._ended.set()
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def close(self) -> None:
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
