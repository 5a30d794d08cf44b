"""Events: what controllers tell people, told once and counted when it repeats."""

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Sequence
from datetime import datetime

from trimtab.api.value import Raw
from trimtab.client.client import EVENTS, Client
from trimtab.clock import timestamp
from trimtab.controllers.contract import Note
from trimtab.errors import ApiFault, NotFound

REMEMBERED = 8192
MOST_WAITING = 16_384
"""What is told while the API server does not answer; beyond this the newest are lost, as news of a long outage may be."""
LAST_WORDS_SECONDS = 2.0


class Recorder:
    """Writes notes as core Events; a note that was told before raises that event's count.

    Nobody waits for an event, so whatever is told in one turn of the loop is written in one go.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: OrderedDict[Note, tuple[str, int]] = OrderedDict()
        self._waiting: list[tuple[Note, datetime]] = []
        self._writer: asyncio.Task[None] | None = None

    def tell(self, note: Note, now: datetime) -> None:
        """Never fails: a lost event must not undo the work it speaks of."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append((note, now))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())

    @property
    def idle(self) -> bool:
        return self._writer is None

    async def written(self) -> None:
        """Wait until everything told so far is written, or lost."""
        while self._writer is not None:
            await asyncio.wait((self._writer,))

    async def close(self) -> None:
        """Give what is still to be told a moment."""
        if self._writer is not None:
            await asyncio.wait((self._writer,), timeout=LAST_WORDS_SECONDS)
        if self._writer is not None:
            self._writer.cancel()

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._write(batch)
        finally:
            self._writer = None

    async def _write(self, batch: Sequence[tuple[Note, datetime]]) -> None:
        fresh: dict[str, Raw] = {}
        again: dict[str, tuple[Note, datetime]] = {}
        for note, now in batch:
            name, count = self._told.get(note, ("", 0))
            if not name:
                event = event_for(note, now)
                name = event["metadata"]["name"]
                fresh[name] = event
            elif name in fresh:
                fresh[name] |= _repeated(count + 1, now)
            else:
                again[name] = (note, now)
            self._keep(note, name, count + 1)
        if fresh:
            await _attempted(self._client.record(list(fresh.values())))
        if again:
            # At once: in a row, a hundred repetitions at a distant API server would be told seconds too late.
            raises = (self._raise_count(note, name, now) for name, (note, now) in again.items())
            await asyncio.gather(*map(_attempted, raises))

    async def _raise_count(self, note: Note, name: str, now: datetime) -> None:
        count = self._told[note][1] if note in self._told else 1
        try:
            await self._client.patch(EVENTS, namespace_of(note), name, _repeated(count, now), manager=note.source)
        except NotFound:  # it was kept for its hour; the story begins anew
            event = event_for(note, now)
            self._keep(note, event["metadata"]["name"], 1)
            await self._client.record([event])

    def _keep(self, note: Note, name: str, count: int) -> None:
        self._told[note] = (name, count)
        self._told.move_to_end(note)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)


async def _attempted(write: Awaitable[None]) -> None:
    """What is refused, or cannot be sent, is lost, and takes nothing else with it."""
    with contextlib.suppress(ApiFault, OSError, TimeoutError):
        await write


def _repeated(count: int, now: datetime) -> Raw:
    return {"count": count, "lastTimestamp": timestamp(now)}


def namespace_of(note: Note) -> str:
    return note.about.namespace or "default"


def event_for(note: Note, now: datetime) -> Raw:
    """The event in full, as Kubernetes would write it: also what says nothing."""
    about, moment = note.about, timestamp(now)
    told = f"{about.uid} {about.kind} {note.source} {note.reason} {note.type} {note.message} {now.timestamp()}"
    digest = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
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
        "metadata": {"name": f"{about.name}.{digest}", "namespace": namespace_of(note)},
        "involvedObject": {key: value for key, value in reference.items() if value},
        "type": note.type,
        "reason": note.reason,
        "message": note.message[:1024],
        "source": {"component": note.source},
        "reportingComponent": note.source,
        "reportingInstance": "",
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "eventTime": None,
        "count": 1,
    }
