"""Objects that one controller wants to create and another one completes first, so that both are one write.

    detect   -> CreateCompleted(binding, by="schedule"), and waits
    schedule -> reconciles the draft like an object of the cache; its changes of it are part of the create
    detect   -> goes on with its next effect: the binding exists

Nothing is lost when the process ends in between: the first controller has not finished its key, and reconciles it again.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.value import Key, Object
from trimtab.controllers.contract import (
    Effect,
    RecordEvent,
    Ref,
    RememberInProcess,
    ReserveCapacity,
    RunScript,
    WriteSequence,
)
from trimtab.controllers.well_known import ref_of
from trimtab.errors import Conflict
from trimtab.runtime.cache import Cache, CacheEntry


class Draft(NamedTuple):
    """An object that does not exist yet."""

    wanted: Object
    entry: CacheEntry
    """As the cache would have it."""
    created: "asyncio.Future[None]"


class DraftQueue:
    """The drafts that one controller has to complete, by the keys that their objects will have."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.by_key: dict[Key, Draft] = {}
        """Only this class changes it; it is nearly always empty, and then nobody has to ask for a draft."""
        self._enqueue: Callable[[Key], None] | None = None

    def open(self, enqueue: Callable[[Key], None]) -> None:
        """The controller runs here and reconciles the keys that are given to `enqueue`."""
        self._enqueue = enqueue

    async def create(self, wanted: Object) -> bool:
        """Return when the controller has created the object, or False if it does not run here.

        Raises what the write raised, and Conflict if the controller ended without one.
        """
        if self._enqueue is None:
            return False
        kind = kind_of(wanted)
        key = Key(kind.id, wanted.namespace, wanted.name)
        if key in self.by_key:
            raise Conflict("another draft of this object is being created", kind=kind.plural, name=wanted.name)
        entry = CacheEntry(to_wire(wanted), kind)
        entry.typed = wanted
        created = asyncio.get_running_loop().create_future()
        self.by_key[key] = Draft(wanted, entry, created)
        self._enqueue(key)
        try:
            await created
        finally:
            del self.by_key[key]
        return True

    def find(self, key: Key) -> Draft | None:
        """The draft with this key, as long as the cache has no such object."""
        draft = self.by_key.get(key)
        if draft is None:
            return None
        table = self._cache.by_id.get(key.kind)
        return None if table is not None and (key.namespace, key.name) in table.entries else draft

    def finish(self, key: Key) -> None:
        """The object was created."""
        draft = self.by_key.get(key)
        if draft is not None and not draft.created.done():
            draft.created.set_result(None)

    def end(self, key: Key, failure: BaseException | None = None) -> None:
        """The reconcile of the key has ended: whoever waits for an object that was not created tries again."""
        draft = self.by_key.get(key)
        if draft is not None and not draft.created.done():
            draft.created.set_exception(
                failure or Conflict("its draft was not created", kind=kind_of(draft.wanted).plural, name=key.name)
            )


class Drafts:
    """The drafts of one control plane: other controllers than the one that completes a draft do not see it."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._queues: dict[str, DraftQueue] = {}

    def queue_of(self, controller: str) -> DraftQueue:
        queue = self._queues.get(controller)
        if queue is None:
            queue = self._queues[controller] = DraftQueue(self._cache)
        return queue


def with_creation(effects: Sequence[Effect], draft: Draft) -> list[Effect]:
    """The effects of a reconcile of a draft: memory that others must see at once, the create, and then the rest."""
    if effects and isinstance(effects[0], RunScript):
        return list(effects)
    created = next((one for one in effects if type(one) is type(draft.wanted)), draft.wanted)
    reserved = [one for one in effects if isinstance(one, ReserveCapacity)]
    others = [one for one in effects if one is not created and not isinstance(one, ReserveCapacity)]
    return [*reserved, WriteSequence((created,)), *others]


def with_uid(effects: Sequence[Effect], draft: Draft, uid: str) -> Iterator[Effect]:
    """The effects with the uid of the created object, where they refer to it."""
    before = ref_of(draft.wanted)
    after = before._replace(uid=uid)
    for effect in effects:
        match effect:
            case RecordEvent(about) if about == before:
                yield effect._replace(about=after)
            case RememberInProcess(_, Ref() as key) if key == before:
                yield effect._replace(key=after)
            case _:
                yield effect
