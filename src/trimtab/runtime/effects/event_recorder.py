"""Writes `RecordEvent` effects as Kubernetes Events; a repeated event raises the count of the first."""

import asyncio
import contextlib
import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial

from trimtab.api.value import Raw
from trimtab.client.client import EVENTS, Client
from trimtab.clock import timestamp
from trimtab.controllers.contract import RecordEvent
from trimtab.errors import ApiError, NotFound

MAX_REMEMBERED_EVENTS = 8192
MAX_PENDING_EVENTS = 16_384
"""Events kept while the API server does not respond; beyond this number the newest are dropped."""
MAX_ATTEMPTS = 12
RETRY_SECONDS = 10.0
"""As Kubernetes does for events."""
CLOSE_TIMEOUT_SECONDS = 2.0
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")


class EventRecorder:
    """Writes core/v1 Events; an event that was recorded before raises the count of the earlier one.

    No controller waits for an event, so all events of one turn of the event loop are written in one batch.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._recorded: OrderedDict[RecordEvent, tuple[str, int]] = OrderedDict()
        self._pending: list[tuple[RecordEvent, datetime]] = []
        self._writer: asyncio.Task[None] | None = None

    def record(self, effect: RecordEvent, now: datetime) -> None:
        """Queue an event. Never raises: a lost event must not fail the reconcile that it reports."""
        if len(self._pending) < MAX_PENDING_EVENTS:
            self._pending.append((effect, now))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())

    @property
    def is_idle(self) -> bool:
        return self._writer is None

    async def wait_until_written(self) -> None:
        """Wait until every event recorded so far is written or dropped."""
        while self._writer is not None:
            await asyncio.wait((self._writer,))

    async def close(self) -> None:
        """Write pending events for a short time, then stop."""
        if self._writer is not None:
            await asyncio.wait((self._writer,), timeout=CLOSE_TIMEOUT_SECONDS)
        if self._writer is not None:
            self._writer.cancel()

    async def _write_all(self) -> None:
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                await self._write(batch)
        finally:
            self._writer = None

    async def _write(self, batch: Sequence[tuple[RecordEvent, datetime]]) -> None:
        new: dict[str, Raw] = {}
        repeated: dict[str, tuple[RecordEvent, datetime]] = {}
        for effect, now in batch:
            name, count = self._recorded.get(effect, ("", 0))
            if not name:
                event = event_for(effect, now)
                name = event["metadata"]["name"]
                new[name] = event
            elif name in new:
                new[name] |= _repeat_fields(count + 1, now)
            else:
                repeated[name] = (effect, now)
            self._remember(effect, name, count + 1)
        if new:
            await _write_or_drop(partial(self._client.record, list(new.values())))
        if repeated:
            # Concurrently: a hundred patches in sequence to a distant API server would take seconds.
            patches = (partial(self._raise_count, effect, name, now) for name, (effect, now) in repeated.items())
            await asyncio.gather(*map(_write_or_drop, patches))

    async def _raise_count(self, effect: RecordEvent, name: str, now: datetime) -> None:
        count = self._recorded[effect][1] if effect in self._recorded else 1
        try:
            await self._client.patch(
                EVENTS, namespace_of(effect), name, _repeat_fields(count, now), manager=effect.source
            )
        except NotFound:  # events expire after an hour; record it as a new one
            event = event_for(effect, now)
            self._remember(effect, event["metadata"]["name"], 1)
            await self._client.record([event])

    def _remember(self, effect: RecordEvent, name: str, count: int) -> None:
        self._recorded[effect] = (name, count)
        self._recorded.move_to_end(effect)
        if len(self._recorded) > MAX_REMEMBERED_EVENTS:
            self._recorded.popitem(last=False)


async def _write_or_drop(write: Callable[[], Awaitable[None]]) -> None:
    """Write, and again where the API server cannot be reached; an event that is rejected is dropped.

    A second attempt writes nothing twice: the names of events are derived from what they say.
    """
    for _ in range(MAX_ATTEMPTS):
        with contextlib.suppress(OSError, TimeoutError):
            with contextlib.suppress(ApiError):
                await write()
            return
        await asyncio.sleep(RETRY_SECONDS)


def _repeat_fields(count: int, now: datetime) -> Raw:
    return {"count": count, "lastTimestamp": timestamp(now)}


def event_name_part(name: str) -> str:
    """The name of an object as part of the name of an event: names of RBAC objects may have characters that it may not."""
    return _NOT_IN_NAMES.sub("-", name.lower()).strip("-.") or "object"


def namespace_of(effect: RecordEvent) -> str:
    return effect.about.namespace or "default"


def event_for(effect: RecordEvent, now: datetime) -> Raw:
    """The complete Event as Kubernetes writes it, including empty fields."""
    about, at = effect.about, timestamp(now)
    identity = (
        f"{about.uid} {about.kind} {effect.source} {effect.reason} {effect.type} {effect.message} {now.timestamp()}"
    )
    digest = hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()
    reference = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{event_name_part(about.name)}.{digest}", "namespace": namespace_of(effect)},
        "involvedObject": {key: value for key, value in reference.items() if value},
        "type": effect.type,
        "reason": effect.reason,
        "message": effect.message[:1024],
        "source": {"component": effect.source},
        "reportingComponent": effect.source,
        "reportingInstance": "",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "eventTime": None,
        "count": 1,
    }
