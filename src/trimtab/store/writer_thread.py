"""The thread that writes to disk, in submission order, so that the event loop does not block."""

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

OnDone = Callable[[Exception | None], object]
"""Called in the event loop when a job has ended, with the exception or None."""


class _Job(NamedTuple):
    loop: asyncio.AbstractEventLoop
    work: Callable[[], None]
    on_done: OnDone

    def run(self) -> None:
        failure = None
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - passed to the callback
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed, and there is no waiter left
            self.loop.call_soon_threadsafe(self.on_done, failure)


class WriterThread:
    """One thread. An executor would make two futures with their own locks for every commit."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread = Thread(target=_run_jobs, args=(self._jobs,), name="store", daemon=True)
        self._thread.start()
        weakref.finalize(self, self._jobs.put, None)

    def submit(self, work: Callable[[], None], on_done: OnDone) -> None:
        self._jobs.put(_Job(asyncio.get_running_loop(), work, on_done))

    async def run(self, work: Callable[[], None]) -> None:
        """Submit the job and wait until it has ended."""
        outcome: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

        def set_outcome(failure: Exception | None) -> None:
            if not outcome.done():  # the waiting task may be cancelled
                outcome.set_result(failure)

        self.submit(work, set_outcome)
        if (failure := await outcome) is not None:
            raise failure

    def stop(self) -> None:
        """End the thread after the jobs already submitted."""
        self._jobs.put(None)
        self._thread.join()


def _run_jobs(jobs: "SimpleQueue[_Job | None]") -> None:
    while (job := jobs.get()) is not None:
        job.run()
        del job  # so that nothing is kept alive while waiting
