"""Watching: a place in the history that moves on as its reader does."""

import asyncio
from collections.abc import Sequence
from typing import Self

from trimtab import errors
from trimtab.store.index import Index
from trimtab.store.records import Event


class Watch:
    """Events under a prefix after a revision, in order, each once.

    It has no queue that could fill up: it reads the one history all watchers share. A reader too slow for the kept
    history gets `errors.Expired`; no writer ever waits for a reader.
    """

    def __init__(self, index: Index, prefix: str, revision: int, limit: int) -> None:
        self.revision = revision
        self._index = index
        self._prefix = prefix
        self._limit = limit

    async def next(self, seconds: float | None = None) -> Sequence[Event]:
        """The next events, or none after `seconds` without one.

        Either way everything up to `revision` has then been told, so it is fit for a bookmark.
        """
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        waiting = True
        while True:
            if self._index.closed:
                raise errors.Unavailable("the store is shutting down")
            events, self.revision = self._index.since(self._prefix, self.revision, self._limit)
            if events or not waiting:
                return events
            waiting = await self._change(deadline)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[Event]:
        try:
            return await self.next()
        except errors.Unavailable:
            raise StopAsyncIteration from None

    async def _change(self, deadline: float | None) -> bool:
        """Wait until something may have changed; False when the deadline came first."""
        loop = asyncio.get_running_loop()
        change: asyncio.Future[bool] = loop.create_future()
        alarm = None if deadline is None else loop.call_at(deadline, _ring, change)
        waiters = self._index.waiters(self._prefix)
        waiters[change] = None
        try:
            return await change
        finally:
            waiters.pop(change, None)
            if alarm is not None:
                alarm.cancel()


def _ring(change: "asyncio.Future[bool]") -> None:
    if not change.done():
        change.set_result(False)
