"""The thread that writes: what takes long is done beside the event loop, in the order in which it was asked for."""

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

Ended = Callable[[Exception | None], object]
"""Told in the loop how the work ended: why it failed, or None."""


class _Job(NamedTuple):
    loop: asyncio.AbstractEventLoop
    work: Callable[[], None]
    ended: Ended

    def run(self) -> None:
        failure = None
        try:
            self.work()
        except Exception as caught:  # noqa: BLE001 - not swallowed: it is told to whoever asked for the work
            failure = caught
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self.loop.call_soon_threadsafe(self.ended, failure)


class Scribe:
    """One thread; an executor would do, if it did not make two futures with locks of their own for every commit."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = Thread(target=_work_through, args=(self._jobs,), name="store", daemon=True)
        self._thread.start()
        weakref.finalize(self, self._jobs.put, None)

    def do(self, work: Callable[[], None], ended: Ended) -> None:
        self._jobs.put(_Job(asyncio.get_running_loop(), work, ended))

    async def done(self, work: Callable[[], None]) -> None:
        """Do it and wait for its end."""
        outcome: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

        def ended(failure: Exception | None) -> None:
            if not outcome.done():  # whoever waited may have gone
                outcome.set_result(failure)

        self.do(work, ended)
        if (failure := await outcome) is not None:
            raise failure

    def stop(self) -> None:
        """End the thread, once it has done what it was asked for."""
        self._jobs.put(None)
        self._thread.join()


def _work_through(jobs: "SimpleQueue[_Job | None]") -> None:
    while (job := jobs.get()) is not None:
        job.run()
        del job  # so that while it waits it keeps nothing alive
