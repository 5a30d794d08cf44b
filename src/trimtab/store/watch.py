"""Watch of a key prefix: a position in the shared history."""

import asyncio
from collections.abc import Sequence
from typing import Self

from trimtab import errors
from trimtab.store.index import MemoryIndex
from trimtab.store.records import StoreEvent


class StoreWatch:
    """Events under a prefix after a revision, in order, each once.

    There is no queue per watch that could fill up: all watches read the one shared history. A reader that is slower than
    the kept history gets `errors.Expired`; a writer never waits for a reader.
    """

    def __init__(self, index: MemoryIndex, prefix: str, revision: int, limit: int) -> None:
        self.revision = revision
        self._index = index
        self._prefix = prefix
        self._limit = limit

    async def next(self, seconds: float | None = None) -> Sequence[StoreEvent]:
        """The next events, or none after `seconds` without one.

        Either way all events up to `revision` have been returned, so it can be sent as a bookmark.
        """
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        waiting = True
        while True:
            if self._index.closed:
                raise errors.Unavailable("the store is shutting down")
            events, self.revision = self._index.events_since(self._prefix, self.revision, self._limit)
            if events or not waiting:
                return events
            waiting = await self._wait_for_change(deadline)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[StoreEvent]:
        try:
            return await self.next()
        except errors.Unavailable:
            raise StopAsyncIteration from None

    async def _wait_for_change(self, deadline: float | None) -> bool:
        """Wait until something may have changed; False when the deadline came first."""
        loop = asyncio.get_running_loop()
        change: asyncio.Future[bool] = loop.create_future()
        timer = None if deadline is None else loop.call_at(deadline, _expire, change)
        waiters = self._index.waiters(self._prefix)
        waiters[change] = None
        try:
            return await change
        finally:
            waiters.pop(change, None)
            if timer is not None:
                timer.cancel()


def _expire(change: "asyncio.Future[bool]") -> None:
    if not change.done():
        change.set_result(False)
