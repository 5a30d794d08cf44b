"""The current state and the recent history in memory; every read and every watch is served from here."""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from trimtab import errors
from trimtab.similar_bytes import SamplePacker
from trimtab.store.keys import resource_prefix_of
from trimtab.store.records import EntryPage, StoredEntry, StoreEvent

FIRST_REVISION = 1  # of the empty store; the first write gets 2, so that 0 and 1 never name an object

revision_of = attrgetter("revision")
_packer = SamplePacker()
"""Shared by all stores of the process: the members of a simulated fleet have the same kinds of objects."""


class Retention(NamedTuple):
    """How much history is kept; the limit that is reached first triggers compaction."""

    revisions: int = 20_000
    seconds: float = 600.0
    superseded_bytes: int = 16 * 1024 * 1024  # bytes of values that were replaced by newer ones
    cached_events: int = 128  # the latest events keep the encodings that watchers share
    cached_bytes: int = 4 * 1024 * 1024  # at most so many bytes of values have such encodings, or one event
    plain_bytes: int = 32 * 1024 * 1024  # bytes of current values that are not compressed: those written last


class LogRow(NamedTuple):
    """One row of the durable log; a row without a value deletes its key."""

    revision: int
    key: str
    value: bytes | None
    created: int


class CompactionMark(NamedTuple):
    """A point in the history: everything up to `revision` had happened by `time`."""

    time: float
    revision: int
    superseded: int


def too_old_error(requested: int, compacted: int) -> errors.Expired:
    return errors.Expired(f"too old resource version: {requested} ({compacted})")


def too_large_error(requested: int, current: int) -> errors.TimedOut:
    return errors.TimedOut(
        f"Timeout: Too large resource version: {requested}, current: {current}",
        causes=[errors.Cause("ResourceVersionTooLarge", "Too large resource version")],
        retry_after=1,
    )


class ResourceIndex:
    """The sorted keys of one resource, its kept events, and the watchers that wait for the next event."""

    __slots__ = ("events", "keys", "name", "trimmed", "waiters")

    def __init__(self, name: str, trimmed: int) -> None:
        self.name = name
        self.keys: list[str] = []
        self.events: list[StoreEvent] = []
        self.trimmed = trimmed  # events up to this revision may have been dropped
        self.waiters: dict[
            asyncio.Future[bool], None
        ] = {}  # a dict keeps them in order, so that runs in virtual time are repeatable

    def span(self, prefix: str) -> tuple[int, int]:
        """The range of the keys that start with `prefix`."""
        size = len(prefix)
        first = bisect_left(self.keys, prefix)
        return first, bisect_right(self.keys, prefix, first, key=lambda key: key[:size])

    def keys_under(self, prefix: str, start_after: str | None = None) -> list[str]:
        first, last = self.span(prefix)
        if start_after is not None:
            first = max(first, bisect_right(self.keys, start_after))
        return self.keys[first:last]

    def events_since(self, revision: int) -> list[StoreEvent]:
        return self.events[bisect_right(self.events, revision, key=revision_of) :]

    def drop_events_until(self, revision: int) -> list[StoreEvent]:
        count = bisect_right(self.events, revision, key=revision_of)
        dropped = self.events[:count]
        if dropped:
            del self.events[:count]
            self.trimmed = dropped[-1].revision
        return dropped

    def wake_waiters(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(True)


class MemoryIndex:
    """All entries by key, sorted keys per resource, and the kept history. It contains only durable writes."""

    def __init__(self, retention: Retention) -> None:
        self.entries: dict[str, StoredEntry] = {}
        self.revision = FIRST_REVISION
        self.compacted = FIRST_REVISION
        self.closed = False
        self._retention = retention
        self._resources: dict[str, ResourceIndex] = {}
        self._all_resources = ResourceIndex("", 0)  # waiters of watches that cover more than one resource
        self._marks: deque[CompactionMark] = deque()
        self._superseded = 0
        self._latest: deque[tuple[StoreEvent, int]] = deque()  # events of all resources whose memo is kept, and sizes
        self._latest_bytes = 0
        self._plain: deque[tuple[StoredEntry, int]] = deque()  # entries that are not compressed, and their sizes
        self._plain_bytes = 0

    def restore(self, rows: Iterable[LogRow], compacted: int) -> None:
        """Replay the durable log; rows up to `compacted` only restore state, later ones are also history."""
        self.revision = self.compacted = max(compacted, FIRST_REVISION)
        for row in rows:
            event = self._replay(row)
            if event.entry is not None:
                self._hold_plain(event.entry, event.held_size)
            if row.revision > self.compacted:
                self._append_history(self._resource_index(event.key), event, event.held_size)
                self._add_mark(0.0)
        self._index_keys()

    def fill(self, entries: Iterable[StoredEntry]) -> None:
        """Begin with these entries, without their history; the index must be empty."""
        self.entries = {entry.key: entry for entry in entries}
        self.revision = self.compacted = max(entry.mod_revision for entry in self.entries.values())
        for entry in self.entries.values():
            self._hold_plain(entry, entry.held_size)
        self._index_keys()

    def _index_keys(self) -> None:
        for key in self.entries:
            self._resource_index(key).keys.append(key)
        for resource in self._resources.values():
            resource.keys.sort()

    def apply(self, events: Iterable[StoreEvent]) -> None:
        """Make durable events visible and wake the watches that wait for them."""
        touched: dict[str, ResourceIndex] = {}
        for event in events:
            resource, size = self._resource_index(event.key), event.held_size
            self._update_entries(resource, event, size)
            self._append_history(resource, event, size)
            touched[resource.name] = resource
        self._all_resources.wake_waiters()
        for resource in touched.values():
            resource.wake_waiters()

    def page(self, prefix: str, start_after: str | None, limit: int | None, at_revision: int | None) -> EntryPage:
        revision = self.revision if at_revision is None else at_revision
        if revision > self.revision:
            raise too_large_error(revision, self.revision)
        if revision < self.compacted:
            raise too_old_error(revision, self.compacted)
        found: list[StoredEntry] = []
        remaining = 0
        for resource in self._resources_under(prefix):
            missing = limit - len(found) if limit else None
            entries, further = self._page_of(resource, prefix, start_after, missing, revision)
            found += entries
            remaining += further
        return EntryPage(found, revision, remaining)

    def count(self, prefix: str) -> int:
        if prefix.count("/") == 4 and prefix.endswith("/"):  # one whole resource
            whole = self._resources.get(prefix)
            return len(whole.keys) if whole is not None else 0
        return sum(len(range(*resource.span(prefix))) for resource in self._resources_under(prefix))

    def events_since(self, prefix: str, revision: int, limit: int) -> tuple[Sequence[StoreEvent], int]:
        """The events after `revision`, at most `limit`, and the revision up to which they are complete."""
        if revision >= self.revision:
            return [], revision
        found = self._events_after(prefix, revision)
        if len(found) > limit:
            return found[:limit], found[limit - 1].revision
        return found, self.revision

    def waiters(self, prefix: str) -> dict[asyncio.Future[bool], None]:
        """The futures to set when something under `prefix` may have changed; a caller adds its own."""
        return (self._resource_index(prefix) if prefix.count("/") >= 4 else self._all_resources).waiters

    def trim(self, now: float) -> list[int]:
        """Compact the history that the limits no longer keep; returns the revisions of log rows that can be deleted."""
        self._add_mark(now)
        target = self.revision - self._retention.revisions
        if target - self.compacted < self._retention.revisions // 16:
            target = 0  # compact in larger steps, so that few writes pay for it
        while self._marks and self._is_expired(self._marks[0], now):
            target = max(target, self._marks.popleft().revision)
        return self.compact(target)

    def compact(self, revision: int) -> list[int]:
        if revision <= self.compacted:
            return []
        self.compacted = min(revision, self.revision)
        stale: list[int] = []
        for resource in list(self._resources.values()):
            for event in resource.drop_events_until(self.compacted):
                if event.previous is not None:
                    stale.append(event.previous.mod_revision)
                if event.entry is None:
                    stale.append(event.revision)
            if not (resource.keys or resource.events or resource.waiters):
                del self._resources[resource.name]
        return stale

    def close(self) -> None:
        self.closed = True
        for resource in (self._all_resources, *self._resources.values()):
            resource.wake_waiters()

    def _resource_index(self, key: str) -> ResourceIndex:
        name = resource_prefix_of(key)
        resource = self._resources.get(name)
        if resource is None:
            resource = self._resources[name] = ResourceIndex(name, self.compacted)
        return resource

    def _resources_under(self, prefix: str) -> Iterator[ResourceIndex]:
        if prefix.count("/") >= 4:
            resource = self._resources.get(resource_prefix_of(prefix))
            return iter(()) if resource is None else iter((resource,))
        return (self._resources[name] for name in sorted(self._resources) if name.startswith(prefix))

    def _replay(self, row: LogRow) -> StoreEvent:
        previous = self.entries.pop(row.key, None)
        if row.value is None and previous is None:
            raise LookupError(f"revision {row.revision} deletes {row.key}, which does not exist")
        key = (
            row.key if previous is None else previous.key
        )  # share one string per key, however often the key was written
        entry = None
        if row.value is not None:
            entry = self.entries[key] = StoredEntry(key, row.value, row.revision, row.created)
        return StoreEvent(key, row.revision, entry, previous)

    def _update_entries(self, resource: ResourceIndex, event: StoreEvent, size: int) -> None:
        if event.entry is None:
            del self.entries[event.key]
            del resource.keys[bisect_left(resource.keys, event.key)]
            return
        self.entries[event.key] = event.entry
        self._hold_plain(event.entry, size)
        if event.previous is None:
            insort(resource.keys, event.key)

    def _append_history(self, resource: ResourceIndex, event: StoreEvent, size: int) -> None:
        resource.events.append(event)
        self.revision = event.revision
        if event.previous is not None:
            self._superseded += event.previous.held_size
        latest, retention = self._latest, self._retention
        latest.append((event, size))
        self._latest_bytes += size
        while len(latest) > retention.cached_events or (
            self._latest_bytes > retention.cached_bytes and len(latest) > 1
        ):
            oldest, size = latest.popleft()
            self._latest_bytes -= size
            oldest.memo = None

    def _hold_plain(self, entry: StoredEntry, size: int) -> None:
        """Keep the value, which has `size` bytes, as it is, and compress the oldest ones beyond the limit.

        A small store has no compressed values. In a large one, reading an object that was not written for long takes
        about 15 us more, and it needs a tenth of the memory.
        """
        self._plain.append((entry, size))
        self._plain_bytes += size
        recent = self._retention.cached_events  # watchers may not have read them yet
        while self._plain_bytes > self._retention.plain_bytes and len(self._plain) > recent:
            oldest, size = self._plain.popleft()
            self._plain_bytes -= size
            if self.entries.get(oldest.key) is oldest:
                oldest.pack(_packer, resource_prefix_of(oldest.key))

    def _page_of(
        self, resource: ResourceIndex, prefix: str, start_after: str | None, limit: int | None, revision: int
    ) -> tuple[Sequence[StoredEntry], int]:
        keys = resource.keys_under(prefix, start_after)
        before = self._entries_at(resource, prefix, start_after, revision)
        if before:
            kept = [key for key in keys if key not in before]
            keys = sorted(kept + [key for key, entry in before.items() if entry is not None])
        page = keys if limit is None else keys[:limit]
        entries = self.entries
        if not before:
            return list(map(entries.__getitem__, page)), len(keys) - len(page)
        return [before.get(key) or entries[key] for key in page], len(keys) - len(page)

    def _entries_at(
        self, resource: ResourceIndex, prefix: str, start_after: str | None, revision: int
    ) -> dict[str, StoredEntry | None]:
        """The values at `revision` of the keys that changed after it."""
        before: dict[str, StoredEntry | None] = {}
        for event in resource.events_since(revision):
            if event.key.startswith(prefix) and (start_after is None or event.key > start_after):
                before.setdefault(event.key, event.previous)
        return before

    def _events_after(self, prefix: str, revision: int) -> Sequence[StoreEvent]:
        if prefix.count("/") >= 4:
            name = resource_prefix_of(prefix)
            resource = self._resources.get(name)
            if resource is None:
                if revision < self.compacted:  # its last events may have been dropped with the resource
                    raise too_old_error(revision, self.compacted)
                return ()
            # Nothing was dropped from this resource since then, so a slow watch of it misses nothing.
            if revision < resource.trimmed:
                raise too_old_error(revision, self.compacted)
            events = resource.events_since(revision)
            return events if name == prefix else [event for event in events if event.key.startswith(prefix)]
        if revision < self.compacted:
            raise too_old_error(revision, self.compacted)
        if (
            self._latest and self._latest[0][0].revision <= revision + 1
        ):  # a watch that keeps up need not read every resource
            found: list[StoreEvent] = []
            for event, _ in reversed(self._latest):
                if event.revision <= revision:
                    break
                if event.key.startswith(prefix):
                    found.append(event)
            return found[::-1]
        resources = (resource for name, resource in self._resources.items() if name.startswith(prefix))
        return sorted((event for resource in resources for event in resource.events_since(revision)), key=revision_of)

    def _add_mark(self, now: float) -> None:
        if self._marks:
            last = self._marks[-1]
            has_grown = self._superseded - last.superseded >= self._retention.superseded_bytes / 16
            if not has_grown and now - last.time < self._retention.seconds / 64:
                return
        self._marks.append(CompactionMark(now, self.revision, self._superseded))

    def _is_expired(self, mark: CompactionMark, now: float) -> bool:
        return (
            now - mark.time > self._retention.seconds
            or self._superseded - mark.superseded > self._retention.superseded_bytes
        )
