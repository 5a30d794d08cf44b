"""The thread that writes to disk, in submission order, so that the event loop does not block."""

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

Ended = Callable[[Exception | None], object]
"""Called in the event loop when a job has ended, with the exception or None."""


class _Job(NamedTuple):
    loop: asyncio.AbstractEventLoop
    work: Callable[[], None]
    ended: Ended

    def run(self) -> None:
        failure = None
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - passed to the callback
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed, nobody waits any more
            self.loop.call_soon_threadsafe(self.ended, failure)


class Scribe:
    """One thread. An executor would make two futures with their own locks for every commit."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = Thread(target=_work_through, args=(self._jobs,), name="store", daemon=True)
        self._thread.start()
        weakref.finalize(self, self._jobs.put, None)

    def do(self, work: Callable[[], None], ended: Ended) -> None:
        self._jobs.put(_Job(asyncio.get_running_loop(), work, ended))

    async def done(self, work: Callable[[], None]) -> None:
        """Submit the job and wait until it has ended."""
        outcome: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

        def set_outcome(failure: Exception | None) -> None:
            if not outcome.done():  # the waiting task may be cancelled
                outcome.set_result(failure)

        self.do(work, set_outcome)
        if (failure := await outcome) is not None:
            raise failure

    def stop(self) -> None:
        """End the thread after the jobs already submitted."""
        self._jobs.put(None)
        self._thread.join()


def _work_through(jobs: "SimpleQueue[_Job | None]") -> None:
    while (job := jobs.get()) is not None:
        job.run()
        del job  # so that nothing is kept alive while waiting
