"""Deletes events an hour after they were last observed, as kube-apiserver does.

A large fleet has millions of events, and nearly all of them are younger than an hour. So a sweep does not decode them all: it
notes the revision of the store at every sweep, and an event whose last write is newer than the revision of an hour ago is
not due. The events that were there at the start are decoded once, and then kept in the order in which they are due.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import orjson

from trimtab.clock import Clock, timestamp
from trimtab.store.keys import resource_prefix
from trimtab.store.records import StoredEntry
from trimtab.store.store import Store
from trimtab.store.txn import DeleteKey, Operation, StagedState

TTL = timedelta(hours=1)
SWEEP_SECONDS = 300.0
PREFIX = resource_prefix("", "events")
_PAGE = 10_000
"""Entries of which the revisions are compared in one turn of the event loop."""
_DECODED = 100
"""Events that are decoded, or deleted, in one turn."""


T = TypeVar("T")


class EventExpiry:
    """The sweeps over the events of one API server."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._first_revision = store.revision
        self._earlier: deque[tuple[str, str]] | None = None
        """The events that were there at the start, by the time at which they were last observed; None: not read yet."""
        self._marks: deque[tuple[datetime, int]] = deque([(clock.now(), self._first_revision)])
        """The revisions of earlier moments."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()

    async def sweep(self) -> None:
        now = self._clock.now()
        observed_before = timestamp(now - TTL)
        self._marks.append((now, self._store.revision))
        while len(self._marks) > 1 and self._marks[1][0] <= now - TTL:
            self._marks.popleft()
        since, revision = self._marks[0]
        if self._earlier is None:
            self._earlier = deque(sorted(await self._observations(0, self._first_revision)))
        due = [key for _, key in itertools.takewhile(lambda event: event[0] < observed_before, self._earlier)]
        await self._delete(due, self._first_revision)
        for _ in due:
            self._earlier.popleft()
        if since <= now - TTL:
            written = await self._observations(self._first_revision, revision)
            await self._delete([key for observed, key in written if observed < observed_before], revision)

    async def _observations(self, after: int, until: int) -> list[tuple[str, str]]:
        """When each event was observed, and its key, for those whose last write is between these revisions."""
        found: list[tuple[str, str]] = []
        last: str | None = None
        while True:
            page = self._store.list(PREFIX, start_after=last, limit=_PAGE).entries
            chosen = [entry for entry in page if after < entry.mod_revision <= until]
            for part in _parts(chosen):
                found += [(_last_observed(entry), entry.key) for entry in part]
                await asyncio.sleep(0)
            if len(page) < _PAGE:
                return found
            last = page[-1].key
            await asyncio.sleep(0)

    async def _delete(self, keys: Sequence[str], until: int) -> None:
        """Delete events, except those that were written again meanwhile."""
        for part in _parts(keys):

            def propose(state: StagedState, part: Sequence[str] = part) -> list[Operation]:
                entries = filter(None, map(state.get, part))
                return [DeleteKey(entry.key) for entry in entries if entry.mod_revision <= until]

            await self._store.transact(propose)


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[first : first + _DECODED] for first in range(0, len(items), _DECODED))


def _last_observed(entry: StoredEntry) -> str:
    """The time at which an event was created or last observed, whichever is later."""
    event = orjson.loads(entry.value)
    series = event.get("series") or {}
    moments = (
        event["metadata"].get("creationTimestamp"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    )
    return max(moment or "" for moment in moments)
