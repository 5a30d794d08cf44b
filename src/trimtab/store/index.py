"""The current state and the recent past in memory: every read and every watch is answered from here."""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple

from trimtab import errors
from trimtab.store.records import Entry, Event, Page

FIRST_REVISION = 1  # of the empty store; the first write takes 2, so that 0 and 1 never name an object

revision_of = attrgetter("revision")


class Keep(NamedTuple):
    """How much of the past is kept; whichever bound is reached first compacts."""

    revisions: int = 20_000
    seconds: float = 600.0
    size: int = 16 * 1024 * 1024  # bytes of values that newer ones replaced
    memos: int = 128  # of the latest events, that keep what watchers made of them for each other


class Row(NamedTuple):
    """One line of the durable log; no value means the key was deleted."""

    revision: int
    key: str
    value: bytes | None
    created: int


class Mark(NamedTuple):
    """A moment in the past: everything up to `revision` had happened by `time`."""

    time: float
    revision: int
    superseded: int


def shelf_name(key: str) -> str:
    """`/registry/<group>/<resource>/` of a key; a key or prefix with fewer segments names its own shelf.

    No shelf's name is the beginning of another shelf's keys, so shelves in name order hold all keys in order.
    """
    parts = key.split("/", 4)
    return key if len(parts) < 5 else key[: len(key) - len(parts[4])]


def too_old(asked: int, compacted: int) -> errors.Expired:
    return errors.Expired(f"too old resource version: {asked} ({compacted})")


def too_large(asked: int, current: int) -> errors.TimedOut:
    return errors.TimedOut(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=[errors.Cause("ResourceVersionTooLarge", "Too large resource version")],
        retry_after=1,
    )


class Shelf:
    """The keys of one resource in order, its kept events, and who waits for the next one."""

    __slots__ = ("events", "keys", "name", "trimmed", "waiters")

    def __init__(self, name: str, trimmed: int) -> None:
        self.name = name
        self.keys: list[str] = []
        self.events: list[Event] = []
        self.trimmed = trimmed  # up to here events may have been dropped
        self.waiters: dict[asyncio.Future[bool], None] = {}  # in the order they came, so that a life can be repeated

    def span(self, prefix: str) -> tuple[int, int]:
        """Where the keys that begin so begin and end."""
        size = len(prefix)
        first = bisect_left(self.keys, prefix)
        return first, bisect_right(self.keys, prefix, first, key=lambda key: key[:size])

    def under(self, prefix: str, start_after: str | None = None) -> list[str]:
        first, last = self.span(prefix)
        if start_after is not None:
            first = max(first, bisect_right(self.keys, start_after))
        return self.keys[first:last]

    def since(self, revision: int) -> list[Event]:
        return self.events[bisect_right(self.events, revision, key=revision_of) :]

    def drop_until(self, revision: int) -> list[Event]:
        count = bisect_right(self.events, revision, key=revision_of)
        dropped = self.events[:count]
        if dropped:
            del self.events[:count]
            self.trimmed = dropped[-1].revision
        return dropped

    def wake(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(True)


class Index:
    """All entries by key, shelves of sorted keys, and the kept history. Knows only what is durable."""

    def __init__(self, keep: Keep) -> None:
        self.entries: dict[str, Entry] = {}
        self.revision = FIRST_REVISION
        self.compacted = FIRST_REVISION
        self.closed = False
        self._keep = keep
        self._shelves: dict[str, Shelf] = {}
        self._broad = Shelf("", 0)  # where those wait who watch more than one shelf
        self._marks: deque[Mark] = deque()
        self._superseded = 0
        self._latest: deque[Event] = deque()  # of all shelves, with what watchers have made of them

    def restore(self, rows: Iterable[Row], compacted: int) -> None:
        """Play the durable log; rows up to `compacted` are the ground, later ones are also history."""
        self.revision = self.compacted = max(compacted, FIRST_REVISION)
        for row in rows:
            event = self._replay(row)
            if row.revision > self.compacted:
                self._remember(self._shelf(event.key), event)
                self._set_mark(0.0)
        for key in self.entries:
            self._shelf(key).keys.append(key)
        for shelf in self._shelves.values():
            shelf.keys.sort()

    def apply(self, events: Iterable[Event]) -> None:
        """Make durable events visible and wake who watches them."""
        touched: dict[str, Shelf] = {}
        for event in events:
            shelf = self._shelf(event.key)
            self._place(shelf, event)
            self._remember(shelf, event)
            touched[shelf.name] = shelf
        self._broad.wake()
        for shelf in touched.values():
            shelf.wake()

    def page(self, prefix: str, start_after: str | None, limit: int | None, at_revision: int | None) -> Page:
        revision = self.revision if at_revision is None else at_revision
        if revision > self.revision:
            raise too_large(revision, self.revision)
        if revision < self.compacted:
            raise too_old(revision, self.compacted)
        found: list[Entry] = []
        remaining = 0
        for shelf in self._shelves_under(prefix):
            room = limit - len(found) if limit else None
            some, more = self._part(shelf, prefix, start_after, room, revision)
            found += some
            remaining += more
        return Page(found, revision, remaining)

    def count(self, prefix: str) -> int:
        if prefix.count("/") == 4 and prefix.endswith("/"):  # a whole shelf, or none
            whole = self._shelves.get(prefix)
            return len(whole.keys) if whole is not None else 0
        return sum(len(range(*shelf.span(prefix))) for shelf in self._shelves_under(prefix))

    def since(self, prefix: str, revision: int, limit: int) -> tuple[Sequence[Event], int]:
        """The events after `revision`, at most `limit`, and the revision up to which they tell everything."""
        found = self._events_after(prefix, revision)
        if len(found) > limit:
            return found[:limit], found[limit - 1].revision
        return found, max(revision, self.revision)

    def waiters(self, prefix: str) -> dict[asyncio.Future[bool], None]:
        """Where to leave a future that becomes True when something under `prefix` may have changed."""
        return (self._shelf(prefix) if prefix.count("/") >= 4 else self._broad).waiters

    def trim(self, now: float) -> list[int]:
        """Compact what the bounds no longer keep; the revisions of the rows that nobody needs any more."""
        self._set_mark(now)
        target = self.revision - self._keep.revisions
        if target - self.compacted < self._keep.revisions // 16:
            target = 0  # by the handful, so that a write rarely pays for it
        while self._marks and self._outlived(self._marks[0], now):
            target = max(target, self._marks.popleft().revision)
        return self.compact(target)

    def compact(self, revision: int) -> list[int]:
        if revision <= self.compacted:
            return []
        self.compacted = min(revision, self.revision)
        stale: list[int] = []
        for shelf in list(self._shelves.values()):
            for event in shelf.drop_until(self.compacted):
                if event.previous is not None:
                    stale.append(event.previous.mod_revision)
                if event.entry is None:
                    stale.append(event.revision)
            if not (shelf.keys or shelf.events or shelf.waiters):
                del self._shelves[shelf.name]
        return stale

    def close(self) -> None:
        self.closed = True
        for shelf in (self._broad, *self._shelves.values()):
            shelf.wake()

    def _shelf(self, key: str) -> Shelf:
        name = shelf_name(key)
        shelf = self._shelves.get(name)
        if shelf is None:
            shelf = self._shelves[name] = Shelf(name, self.compacted)
        return shelf

    def _shelves_under(self, prefix: str) -> Iterator[Shelf]:
        if prefix.count("/") >= 4:
            shelf = self._shelves.get(shelf_name(prefix))
            return iter(()) if shelf is None else iter((shelf,))
        return (self._shelves[name] for name in sorted(self._shelves) if name.startswith(prefix))

    def _replay(self, row: Row) -> Event:
        previous = self.entries.pop(row.key, None)
        if row.value is None and previous is None:
            raise LookupError(f"revision {row.revision} deletes {row.key}, which is not there")
        key = row.key if previous is None else previous.key  # one string per key, however often it was written
        entry = None
        if row.value is not None:
            entry = self.entries[key] = Entry(key, row.value, row.revision, row.created)
        return Event(key, row.revision, entry, previous)

    def _place(self, shelf: Shelf, event: Event) -> None:
        if event.entry is None:
            del self.entries[event.key]
            del shelf.keys[bisect_left(shelf.keys, event.key)]
            return
        self.entries[event.key] = event.entry
        if event.previous is None:
            insort(shelf.keys, event.key)

    def _remember(self, shelf: Shelf, event: Event) -> None:
        shelf.events.append(event)
        self.revision = event.revision
        if event.previous is not None:
            self._superseded += len(event.previous.value)
        self._latest.append(event)
        if len(self._latest) > self._keep.memos:
            self._latest.popleft().memo = None

    def _part(
        self, shelf: Shelf, prefix: str, start_after: str | None, room: int | None, revision: int
    ) -> tuple[Sequence[Entry], int]:
        keys = shelf.under(prefix, start_after)
        before = self._as_of(shelf, prefix, start_after, revision)
        if before:
            kept = [key for key in keys if key not in before]
            keys = sorted(kept + [key for key, entry in before.items() if entry is not None])
        shown = keys if room is None else keys[:room]
        entries = self.entries
        return [before.get(key) or entries[key] for key in shown], len(keys) - len(shown)

    def _as_of(self, shelf: Shelf, prefix: str, start_after: str | None, revision: int) -> dict[str, Entry | None]:
        """What the keys that changed after `revision` held then."""
        before: dict[str, Entry | None] = {}
        for event in shelf.since(revision):
            if event.key.startswith(prefix) and (start_after is None or event.key > start_after):
                before.setdefault(event.key, event.previous)
        return before

    def _events_after(self, prefix: str, revision: int) -> Sequence[Event]:
        if prefix.count("/") >= 4:
            name = shelf_name(prefix)
            shelf = self._shelves.get(name)
            if shelf is None:
                return ()
            # A shelf where nothing was dropped since owes its quiet watcher nothing, however far others have come.
            if revision < shelf.trimmed:
                raise too_old(revision, self.compacted)
            events = shelf.since(revision)
            return events if name == prefix else [event for event in events if event.key.startswith(prefix)]
        if revision < self.compacted:
            raise too_old(revision, self.compacted)
        if self._latest and self._latest[0].revision <= revision + 1:  # whoever keeps up need not look at every shelf
            latest = takewhile(lambda event: event.revision > revision, reversed(self._latest))
            return [event for event in latest if event.key.startswith(prefix)][::-1]
        shelves = (shelf for name, shelf in self._shelves.items() if name.startswith(prefix))
        return sorted((event for shelf in shelves for event in shelf.since(revision)), key=revision_of)

    def _set_mark(self, now: float) -> None:
        if self._marks:
            last = self._marks[-1]
            grown = self._superseded - last.superseded >= self._keep.size / 16
            if not grown and now - last.time < self._keep.seconds / 64:
                return
        self._marks.append(Mark(now, self.revision, self._superseded))

    def _outlived(self, mark: Mark, now: float) -> bool:
        return now - mark.time > self._keep.seconds or self._superseded - mark.superseded > self._keep.size
