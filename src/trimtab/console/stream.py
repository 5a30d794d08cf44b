"""The event stream of the pages: what changed is rendered once for all pages that show the same, once a second.

Open pages with the same address and the same rights form a group. A change of the model wakes the hub, which waits
until a second has passed since the last round, asks each group whether one of its topics has changed, renders those
parts again, and sends what differs from the last time: one message per page and round. Nothing runs while nothing
changes, but a comment every 20 seconds that keeps connections open.

What a group gets has nothing of one user in it: the script of a page puts the CSRF token of its own session into forms.
A page whose user has lost or gained rights leaves its group and is loaded again.

A page tells the stream which revision it shows. When the model has moved on since, or the process is another one, the
stream first sends all live parts, so that a page continues where it was after a restart of the server.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from trimtab.console.model import FleetModel
from trimtab.console.page import Page
from trimtab.console.rendering import Renderer, row_ids
from trimtab.tasks import LoggedFailure, stop_tasks

ROUND_SECONDS = 1.0
MAX_CPU_SHARE = 0.07
"""Rounds that take long follow each other less often, so that all open pages together use no more of a core."""
PULSE = "pulse"
MAX_PULSES = 100
KEEP_ALIVE_SECONDS = 20.0
RECHECK_SECONDS = 30.0
"""How often the rights of each open page are compared with those of its group."""
MAX_STREAMS = 1000
MAX_STREAMS_PER_SESSION = 50
MAX_QUEUED = 8
"""Messages that wait for a slow browser, before it is told to load the page again."""
KEEP_ALIVE = b": \n\n"
RELOAD = b"event: reload\ndata: {}\n\n"
SIGNED_OUT = b"event: signed-out\ndata: {}\n\n"
log = logging.getLogger("trimtab.console")


class LivePage(NamedTuple):
    """A page as one group of browsers sees it."""

    key: Any
    page: Page
    values: Callable[[], Awaitable[Mapping[str, Any] | None]]
    """The current values of its template; None when the group must load the page again, as after a change of rights."""
    pulse: Callable[[], Awaitable[tuple[Any, Mapping[str, Any]] | None]]
    """The values of the pulse line alone, and what makes two of them equal: most changes touch nothing else of a page."""
    is_allowed: Callable[[], Awaitable[bool]]
    """Whether the user still has the rights that the group is about."""


class Subscriber:
    """One open page."""

    def __init__(self, live: LivePage, is_open: Callable[[], bool], owner: str, checked: float) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue(MAX_QUEUED)
        self.live = live
        self.is_open = is_open
        self.owner = owner
        self.checked = checked
        """When its rights were last compared with those of its group."""

    def send(self, message: bytes) -> None:
        try:
            self.queue.put_nowait(message)
        except asyncio.QueueFull:
            self.reload()

    def reload(self) -> None:
        """Let the page be loaded again; nothing that waits is sent any more."""
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(RELOAD)


class Group:
    """Browsers that show the same."""

    def __init__(self, live: LivePage) -> None:
        self.live = live
        """The page of the subscriber that is there for the longest time."""
        self.version = 0
        self.subscribers: dict[Subscriber, None] = {}
        self.parts: dict[str, str] = {}
        self.orders: dict[str, list[str]] = {}
        self.rows: dict[str, dict[str, Any]] = {}


class Hub:
    """All streams of one console."""

    def __init__(self, model: FleetModel, renderer: Renderer) -> None:
        self._model = model
        self._renderer = renderer
        self._groups: dict[Any, Group] = {}
        self._round: asyncio.Task[None] | None = None
        self._last_round = 0.0
        self._round_cost = 0.0
        self._pulses: dict[Any, tuple[int, str]] = {}
        self.epoch = secrets.token_hex(4)
        model.add_listener(self.wake)

    @property
    def revision(self) -> str:
        return f"{self.epoch}-{self._model.version}"

    @property
    def stream_count(self) -> int:
        return sum(len(group.subscribers) for group in self._groups.values())

    def wake(self) -> None:
        """Something has changed: plan a round, unless there is one already or nobody looks."""
        if self._groups and self._round is None:
            self._round = asyncio.get_running_loop().create_task(self._run_round())

    async def _run_round(self) -> None:
        loop = asyncio.get_running_loop()
        started_at: int | None = None
        try:
            pause = max(ROUND_SECONDS, self._round_cost / MAX_CPU_SHARE)
            await asyncio.sleep(max(0.0, self._last_round + pause - loop.time()))
            self._last_round, started_at = loop.time(), self._model.version
            self._round_cost = 0.0
            for group in list(self._groups.values()):
                began = time.thread_time()
                page = group.live.page.template
                with LoggedFailure(log, "a live page could not be rendered: %s", page) as update:
                    await self._update(group)
                if update.failure is not None:
                    self._reload_all(group)
                self._round_cost += time.thread_time() - began
                await asyncio.sleep(0)
        finally:
            self._round = None
            if started_at is not None and self._model.version != started_at:
                self.wake()

    async def _check_rights(self, group: Group) -> None:
        """Drop the subscribers whose rights are no longer those of the group."""
        now = asyncio.get_running_loop().time()
        for subscriber in list(group.subscribers):
            if now - subscriber.checked >= RECHECK_SECONDS:
                subscriber.checked = now
                if not await subscriber.live.is_allowed():
                    subscriber.reload()
                    self._remove(group, subscriber)

    def _reload_all(self, group: Group) -> None:
        """Let all pages of a group be loaded again; the next that comes starts a group of its own."""
        for subscriber in list(group.subscribers):
            subscriber.reload()
            self._remove(group, subscriber)

    def _remove(self, group: Group, subscriber: Subscriber) -> None:
        group.subscribers.pop(subscriber, None)
        if group.subscribers:
            group.live = next(iter(group.subscribers)).live
        elif self._groups.get(group.live.key) is group:
            del self._groups[group.live.key]

    async def _update(self, group: Group) -> None:
        changed = self._changed_topics(group)
        if not changed:
            return
        await self._check_rights(group)
        if not group.subscribers:
            return
        version = self._model.version
        patches = await self._pulse_patches(group, changed)
        if patches is not None and not changed.isdisjoint(self._topics_of(group, but=PULSE)):
            values = await group.live.values()
            patches = None if values is None else patches + self._patches(group, values, changed)
        if patches is None:
            self._reload_all(group)
            return
        group.version = version
        if patches:
            message = message_of(patches, self.revision)
            for subscriber in group.subscribers:
                subscriber.send(message)

    def _changed_topics(self, group: Group) -> set[str]:
        topics = self._model.topics
        return {topic for topic in self._topics_of(group) if topics[topic] > group.version}

    def _topics_of(self, group: Group, but: str = "") -> set[str]:
        """The topics of a group, with the variable parts of its address filled in; `but` leaves one part out."""
        page, key = group.live.page, "/".join(group.live.key[1])
        topics = {topic for part, topics in page.live.items() if part != but for topic in topics}
        topics |= {topic for _, _, topics in page.rows.values() for topic in topics}
        return {topic.replace("*", key) for topic in topics}

    async def _pulse_patches(self, group: Group, changed: set[str]) -> list[dict[str, Any]] | None:
        """The pulse line, rendered once for all groups with the same rights; None to load the page again."""
        page = group.live.page
        if changed.isdisjoint(page.live.get(PULSE, ())):
            return []
        found = await group.live.pulse()
        if found is None:
            return None
        key, values = found
        if self._pulses.get(key, (0, ""))[0] != self._model.version:
            if len(self._pulses) > MAX_PULSES:
                self._pulses.clear()
            self._pulses[key] = (self._model.version, self._renderer.part(page, PULSE, values))
        text = self._pulses[key][1]
        if group.parts.get(PULSE) == text:
            return []
        group.parts[PULSE] = text
        return [{"id": PULSE, "html": text}]

    def _patches(self, group: Group, values: Mapping[str, Any], changed: set[str]) -> list[dict[str, Any]]:
        """The parts that differ from what was sent last."""
        page, key = group.live.page, "/".join(group.live.key[1])
        patches: list[dict[str, Any]] = []
        for block, topics in page.live.items():
            if block == PULSE and block in group.parts:
                continue  # sent with the others of its rights
            if not changed.isdisjoint(topic.replace("*", key) for topic in topics):
                text = self._renderer.part(page, block, values)
                if group.parts.get(block) != text:
                    group.parts[block] = text
                    patches.append({"id": block, "html": text})
        for table, (macro, name, topics) in page.rows.items():
            if not changed.isdisjoint(topic.replace("*", key) for topic in topics):
                patches += self._row_patches(group, table, macro, values["view"][name])
        return patches

    def _row_patches(self, group: Group, table: str, macro: str, rows: list[Any]) -> list[dict[str, Any]]:
        before, order = group.rows.get(table, {}), row_ids(rows)
        now = {row["id"]: row["version"] for row in rows}
        fresh = {
            row["id"]: str(self._renderer.row(macro, row)) for row in rows if before.get(row["id"]) != row["version"]
        }
        is_reordered = group.orders.get(table) != order
        group.rows[table], group.orders[table] = now, order
        if not fresh and not is_reordered:
            return []
        return [{"rows": table, "html": fresh, **({"order": order} if is_reordered else {})}]

    async def subscribe(
        self, live: LivePage, revision: str, is_open: Callable[[], bool], owner: str
    ) -> AsyncIterator[bytes] | None:
        """The messages for one open page; None when there are too many."""
        mine = sum(one.owner == owner for group in self._groups.values() for one in group.subscribers)
        if self.stream_count >= MAX_STREAMS or mine >= MAX_STREAMS_PER_SESSION:
            return None
        group = self._groups.get(live.key)
        if group is None:
            group = Group(live)
            await self._remember_all(group)
            group = self._groups.setdefault(live.key, group)
        subscriber = Subscriber(live, is_open, owner, asyncio.get_running_loop().time())
        group.subscribers[subscriber] = None
        if self._is_behind(group, revision):
            subscriber.send(message_of(self._everything(group), self.revision))
        if self._changed_topics(group):
            self.wake()  # what changed while the parts were rendered woke nobody: the group was not there yet
        return self._messages(group, subscriber)

    def _is_behind(self, group: Group, revision: str) -> bool:
        """Whether the page shows less than the group was last sent."""
        epoch, _, number = revision.partition("-")
        if epoch != self.epoch or not number.isdecimal():
            return True
        latest = max((self._model.topics[topic] for topic in self._topics_of(group)), default=0)
        return int(number) < latest

    async def _remember_all(self, group: Group) -> None:
        """Render every part once, to know later what differs."""
        group.version = self._model.version
        values = await group.live.values()
        if values is not None:
            self._patches(group, values, self._topics_of(group))

    def _everything(self, group: Group) -> list[dict[str, Any]]:
        patches: list[dict[str, Any]] = [{"id": block, "html": text} for block, text in group.parts.items()]
        for table, (macro, _, _) in group.live.page.rows.items():
            order = group.orders.get(table, [])
            patches.append({"rows": table, "order": order, "html": self._known_rows(group, table, macro)})
        return patches

    def _known_rows(self, group: Group, table: str, macro: str) -> dict[str, str]:
        versions = group.rows.get(table, {})
        return {name: text for name in versions if (text := self._renderer.known_row(macro, name)) is not None}

    async def _messages(self, group: Group, subscriber: Subscriber) -> AsyncIterator[bytes]:
        try:
            yield b"retry: 1500\n\n"
            while subscriber.is_open():
                try:
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        message = await subscriber.queue.get()
                except TimeoutError:
                    message = KEEP_ALIVE
                yield message
                if message is RELOAD:
                    return
            yield SIGNED_OUT
        finally:
            self._remove(group, subscriber)

    async def close(self) -> None:
        if self._round is not None:
            await stop_tasks([self._round], log)


def message_of(patches: list[dict[str, Any]], revision: str) -> bytes:
    body = msgspec.json.encode({"revision": revision, "patches": patches})
    return b"event: patch\ndata: " + body + b"\n\n"
