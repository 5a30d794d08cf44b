"""Watch requests: one line per event, encoded once for all watchers with the same format."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Literal, NamedTuple

import orjson
from msgspec import Struct

from trimtab.api.value import Raw
from trimtab.errors import Expired, Unavailable
from trimtab.server.registry.selector_matching import EVERYTHING, Choice, choose
from trimtab.server.request.options import ListOptions, validate_watch_options
from trimtab.server.resources import Served, Where
from trimtab.server.storage.object_codec import dress
from trimtab.store.records import Event
from trimtab.store.store import Store

BOOKMARK_SECONDS = 60.0
_BEFORE_END = 2.0
"""How long before its timeout a watch sends a last bookmark."""


class Seen(Struct, frozen=True):
    """One event after a watcher's selectors."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    value: bytes
    revision: int


class View(NamedTuple):
    """How a watcher wants objects encoded; encoded events are shared by `name`, an empty name shares none."""

    name: str
    show: Callable[[bytes, int], bytes]


def plain_view(served: Served) -> View:
    return View(served.api_version, lambda value, revision: dress(served, value, revision))


def seen(event: Event, choice: Choice) -> Seen | None:
    """The event after the selectors are applied; None when it is not visible to the watcher."""
    after = event.value if event.value is not None and choice.takes(event.value) else None
    before = event.prev_value if event.prev_value is not None and choice.takes(event.prev_value) else None
    if after is not None:
        return Seen("MODIFIED" if before is not None else "ADDED", after, event.revision)
    return Seen("DELETED", before, event.revision) if before is not None else None


Line = Callable[[str, bytes], bytes]


def line(type_: str, body: bytes) -> bytes:
    """One event as a line of JSON."""
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), body)


def _encode(event: Event, choice: Choice, view: View, make_line: Line) -> bytes:
    """The line of an event, kept in its memo if all watchers of this format see the same."""
    if choice is not EVERYTHING or not view.name:
        visible = seen(event, choice)
        return make_line(visible.type, view.show(visible.value, visible.revision)) if visible else b""
    if event.memo is None:
        event.memo = {}
    encoded: bytes | None = event.memo.get(view.name)
    if encoded is None:
        encoded = event.memo[view.name] = make_line(event.type, view.show(event.shown, event.revision))
    return encoded


def bookmark(served: Served, revision: int, *, initial_end: bool = False) -> Raw:
    metadata: Raw = {"resourceVersion": str(revision)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": served.kind.name, "apiVersion": served.api_version, "metadata": metadata}


class Watching:
    """One watch request."""

    def __init__(
        self,
        store: Store,
        where: Where,
        options: ListOptions,
        view: View,
        *,
        make_bookmark: Callable[[int, bool], Raw] | None = None,
        make_line: Line = line,
    ) -> None:
        self._line = make_line
        self._marked = False
        self._options = options = validate_watch_options(options)
        self._store = store
        served = where.served
        self._prefix = served.under(where.namespace)
        self._choice = choose(served, options.labels, options.fields)
        self._view = view
        self._bookmark = make_bookmark or (lambda revision, end: bookmark(served, revision, initial_end=end))

    def _from_the_start(self) -> bool:
        if self._options.initial_events is not None:
            return self._options.initial_events
        return not self._options.version

    def _initial(self) -> tuple[list[bytes], int]:
        page = self._store.list(self._prefix)
        matching: Iterable[bytes] = (
            self._line("ADDED", self._view.show(entry.value, entry.mod_revision))
            for entry in page.entries
            if self._choice.takes(entry.value)
        )
        lines = list(matching)
        if self._options.bookmarks and (self._options.initial_events or self._options.version == 0):
            lines.append(self._line("BOOKMARK", orjson.dumps(self._bookmark(page.revision, True))))
        return lines, page.revision

    async def lines(self) -> AsyncIterator[bytes]:
        """Complete lines, as many at a time as there are; ends at the timeout or with an ERROR line."""
        loop = asyncio.get_running_loop()
        ends = None if self._options.timeout is None else loop.time() + self._options.timeout
        revision = self._options.version or 0
        if self._from_the_start():
            first, revision = self._initial()
            if first:
                yield b"".join(first)
        elif self._options.initial_events is False and not revision:
            revision = self._store.revision
        try:
            async for lines in self._follow(revision, ends):
                yield lines
        except (Expired, Unavailable) as fault:
            if isinstance(fault, Expired):
                yield self._line("ERROR", orjson.dumps(fault.status()))

    async def _follow(self, revision: int, ends: float | None) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        watch = self._store.watch(self._prefix, revision)
        bookmark_at = self._next_mark(loop.time(), ends)
        while ends is None or loop.time() < ends:
            deadlines = [time for time in (bookmark_at, ends) if time is not None]
            wait = max(0.0, min(deadlines) - loop.time()) if deadlines else None
            events = await watch.next(wait)
            if joined := b"".join([_encode(event, self._choice, self._view, self._line) for event in events]):
                yield joined
            if bookmark_at is not None and loop.time() >= bookmark_at:
                self._marked = True
                yield self._line("BOOKMARK", orjson.dumps(self._bookmark(watch.revision, False)))
                bookmark_at = self._next_mark(loop.time(), ends)

    def _next_mark(self, now: float, ends: float | None) -> float | None:
        if not self._options.bookmarks:
            return None
        due = now + BOOKMARK_SECONDS
        if ends is None:
            return due
        last = ends - _BEFORE_END
        if last > now:
            return min(due, last)
        halfway = now + _BEFORE_END / 2  # a short watch gets its bookmark half-way
        return halfway if halfway < ends and not self._marked else None
