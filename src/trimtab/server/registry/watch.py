"""Watch requests: one line per event, encoded once for all watchers with the same format."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import orjson
from msgspec import Struct

from trimtab.api.value import Raw
from trimtab.errors import Expired, Unavailable
from trimtab.server.registry.selector_matching import MATCH_EVERYTHING, RequestSelector, parse_selectors
from trimtab.server.request import large_objects
from trimtab.server.request.options import ListOptions, validate_watch_options
from trimtab.server.request.parts import PART_BYTES, Pacer
from trimtab.server.resources import ObjectPath, ServedResource
from trimtab.server.storage.object_codec import encode_object
from trimtab.server.storage.version_conversion import entries_in_version, event_in_version
from trimtab.store.records import EntryPage, StoreEvent
from trimtab.store.store import Store

BOOKMARK_SECONDS = 60.0
_EVENTS_AT_A_TIME = 100
"""Events that are encoded before others have a turn."""
_LAST_BOOKMARK_SECONDS = 2.0
"""How long before its timeout a watch sends a last bookmark."""


class FilteredEvent(Struct, frozen=True):
    """One event after a watcher's selectors."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    value: bytes
    revision: int


class WatchFormat(NamedTuple):
    """How a watcher wants objects encoded; encoded events are shared by `name`, an empty name shares none."""

    name: str
    encode: Callable[[bytes, int], bytes]
    is_slow: bool = False
    """Whether large objects are encoded in a thread."""
    always_slow: bool = False
    """Whether small ones are as well."""
    searches: int = 1
    """How often an object may be searched to be encoded."""
    prepare: Callable[[], None] | None = None
    """Is called in the event loop before objects are encoded, perhaps in a thread."""

    def is_slow_for(self, values: Iterable[bytes]) -> bool:
        return self.always_slow or (self.is_slow and large_objects.any_large(values, self.searches))


def plain_format(served: ServedResource) -> WatchFormat:
    return WatchFormat(
        served.api_version,
        lambda value, revision: encode_object(served, value, revision),
        is_slow=served.from_stored is not None,
    )


def filter_event(event: StoreEvent, selector: RequestSelector) -> FilteredEvent | None:
    """The event after the selectors are applied; None when it is not visible to the watcher."""
    after = event.value if event.value is not None and selector.matches(event.value) else None
    before = event.prev_value if event.prev_value is not None and selector.matches(event.prev_value) else None
    if after is not None:
        return FilteredEvent("MODIFIED" if before is not None else "ADDED", after, event.revision)
    return FilteredEvent("DELETED", before, event.revision) if before is not None else None


LineEncoder = Callable[[str, bytes], bytes]


def json_line(type_: str, body: bytes) -> bytes:
    """One event as a line of JSON."""
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), body)


def _encode_event(
    event: StoreEvent, selector: RequestSelector, watch_format: WatchFormat, make_line: LineEncoder
) -> bytes:
    """The line of an event, kept in its memo if all watchers of this format see the same."""
    if selector is not MATCH_EVERYTHING or not watch_format.name:
        visible = filter_event(event, selector)
        return make_line(visible.type, watch_format.encode(visible.value, visible.revision)) if visible else b""
    if event.memo is None:
        event.memo = {}
    encoded: bytes | None = event.memo.get(watch_format.name)
    if encoded is None:
        encoded = event.memo[watch_format.name] = make_line(
            event.type, watch_format.encode(event.last_value, event.revision)
        )
    return encoded


def bookmark_object(served: ServedResource, revision: int, *, initial_end: bool = False) -> Raw:
    metadata: Raw = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": served.kind.name, "apiVersion": served.api_version, "metadata": metadata}


class ResourceWatch:
    """One watch request."""

    def __init__(
        self,
        store: Store,
        where: ObjectPath,
        options: ListOptions,
        watch_format: WatchFormat,
        *,
        make_bookmark: Callable[[int, bool], Raw] | None = None,
        make_line: LineEncoder = json_line,
        list_blueprint: bytes = b"",
    ) -> None:
        """`list_blueprint` is an empty list of the watched objects in the encoding of the client."""
        self._list_blueprint = list_blueprint
        self._encode_line = make_line
        self._bookmark_sent = False
        self._options = options = validate_watch_options(options)
        self._store = store
        self._served = served = where.served
        self._prefix = served.collection_prefix(where.namespace)
        self._selector = parse_selectors(served, options.labels, options.fields)
        self._format = watch_format
        self._bookmark = make_bookmark or (lambda revision, end: bookmark_object(served, revision, initial_end=end))

    def _sends_initial_events(self) -> bool:
        if self._options.initial_events is not None:
            return self._options.initial_events
        return not self._options.version

    def _initial_lines(self, page: EntryPage) -> Iterator[bytes]:
        """The current objects as events, in parts that take about a millisecond."""
        part, size, pacer = list[bytes](), 0, Pacer()
        for entry in page.entries:
            if self._selector.matches(entry.value):
                part.append(self._encode_line("ADDED", self._format.encode(entry.value, entry.mod_revision)))
                size += len(part[-1])
            if size >= PART_BYTES or pacer.is_due():
                yield b"".join(part)
                part, size, pacer = [], 0, Pacer()
        if self._options.bookmarks and (self._options.initial_events or self._options.version == 0):
            part.append(self._encode_line("BOOKMARK", orjson.dumps(self._last_initial_bookmark(page.revision))))
        yield b"".join(part)

    def _last_initial_bookmark(self, revision: int) -> Raw:
        """The end of the initial events; clients that wanted a list build it from the blueprint."""
        mark = self._bookmark(revision, True)
        if self._options.initial_events and self._list_blueprint:
            blueprint = base64.b64encode(self._list_blueprint).decode()
            mark["metadata"]["annotations"]["kubernetes.io/initial-events-list-blueprint"] = blueprint
        return mark

    async def lines(self) -> AsyncIterator[bytes]:
        """Complete lines, as many at a time as there are; ends at the timeout or with an ERROR line."""
        loop = asyncio.get_running_loop()
        ends = None if self._options.timeout is None else loop.time() + self._options.timeout
        revision = self._options.version or 0
        if self._sends_initial_events():
            page = self._store.list(self._prefix)
            revision = page.revision
            if self._served.converter is not None:
                page = page._replace(entries=await entries_in_version(self._served, page.entries))
            parts = self._initial_lines(page)
            slow = self._format.is_slow_for(entry.value for entry in page.entries)
            self._prepare_encoding()
            while (part := await large_objects.run(slow, next, parts, None)) is not None:
                yield part
                await asyncio.sleep(0)
        elif self._options.initial_events is False and not revision:
            revision = self._store.revision
        try:
            async for lines in self._stream_events(revision, ends):
                yield lines
        except (Expired, Unavailable) as fault:
            if isinstance(fault, Expired):
                yield self._encode_line("ERROR", orjson.dumps(fault.status()))

    async def _stream_events(self, revision: int, ends: float | None) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        watch = self._store.watch(self._prefix, revision, limit=_EVENTS_AT_A_TIME)
        bookmark_at = self._next_bookmark(loop.time(), ends)
        while ends is None or loop.time() < ends:
            deadlines = [time for time in (bookmark_at, ends) if time is not None]
            wait = max(0.0, min(deadlines) - loop.time()) if deadlines else None
            events = await watch.next(wait)
            if self._served.converter is not None:
                events = [await event_in_version(self._served, event) for event in events]
            slow = self._format.is_slow_for(event.last_value for event in events)
            self._prepare_encoding()
            if joined := await large_objects.run(slow, self._encode_events, events):
                yield joined
            if len(events) >= _EVENTS_AT_A_TIME:
                await asyncio.sleep(0)
            if bookmark_at is not None and loop.time() >= bookmark_at:
                self._bookmark_sent = True
                yield self._encode_line("BOOKMARK", orjson.dumps(self._bookmark(watch.revision, False)))
                bookmark_at = self._next_bookmark(loop.time(), ends)

    def _prepare_encoding(self) -> None:
        if self._format.prepare is not None:
            self._format.prepare()

    def _encode_events(self, events: Iterable[StoreEvent]) -> bytes:
        return b"".join([_encode_event(event, self._selector, self._format, self._encode_line) for event in events])

    def _next_bookmark(self, now: float, ends: float | None) -> float | None:
        if not self._options.bookmarks:
            return None
        due = now + BOOKMARK_SECONDS
        if ends is None:
            return due
        last = ends - _LAST_BOOKMARK_SECONDS
        if last > now:
            return min(due, last)
        halfway = now + _LAST_BOOKMARK_SECONDS / 2  # a short watch gets its bookmark half-way
        return halfway if halfway < ends and not self._bookmark_sent else None
