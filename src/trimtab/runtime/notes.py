"""Events: what controllers tell people, told once and counted when it repeats."""

import contextlib
import hashlib
from collections import OrderedDict
from datetime import datetime

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.clock import timestamp
from trimtab.controllers.contract import Note
from trimtab.errors import ApiFault, NotFound

EVENTS = Resource("", "v1", "events", "Event")
REMEMBERED = 8192


class Recorder:
    """Writes notes as core Events; a note that was told before raises that event's count."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: OrderedDict[Note, tuple[str, int]] = OrderedDict()

    async def tell(self, note: Note, now: datetime) -> None:
        """Never fails: a lost event must not undo the work it speaks of."""
        with contextlib.suppress(ApiFault, OSError):
            await self._tell(note, now)

    async def _tell(self, note: Note, now: datetime) -> None:
        name, count = self._told.get(note, ("", 0))
        if name:
            self._told[note] = (name, count + 1)
            self._told.move_to_end(note)
            try:
                patch = {"count": count + 1, "lastTimestamp": timestamp(now)}
                await self._client.patch(EVENTS, namespace_of(note), name, patch, manager=note.source)
            except NotFound:
                del self._told[note]
            else:
                return
        event = event_for(note, now)
        self._told[note] = (event["metadata"]["name"], 1)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        await self._client.create(EVENTS, event, manager=note.source)


def namespace_of(note: Note) -> str:
    return note.about.namespace or "default"


def event_for(note: Note, now: datetime) -> Raw:
    about = note.about
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
        "firstTimestamp": timestamp(now),
        "lastTimestamp": timestamp(now),
        "count": 1,
    }
