"""Commits changes of objects to the store, and tells those who keep something derived from them."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from trimtab.api.value import Raw
from trimtab.server.resources import ServedResource
from trimtab.server.storage.object_codec import RecentWrites, StoredObject, event_memo, pack
from trimtab.server.storage.version_conversion import with_version
from trimtab.store.records import StoredEntry, StoreEvent
from trimtab.store.store import Store
from trimtab.store.txn import ABSENT, DeleteKey, Operation, Proposal, PutKey, StagedState, TransactionResult

_RECENT_PER_CACHED_EVENT = 4
"""An object is written again a little later than its watchers read it, so more objects than events are kept decoded."""


class WriteOutcome(Struct, frozen=True):
    """The result of a write."""

    stored: StoredObject
    created: bool = False
    deleted: bool = False


class ObjectCommits:
    """Writes objects in transactions, and keeps the decoded form of the latest ones."""

    def __init__(self, store: Store, on_group_write: Mapping[str, Callable[[], None]]) -> None:
        """`on_group_write` are callbacks by API group: each is called after a write of an object of its group."""
        self._store = store
        self._recent_writes = RecentWrites(_RECENT_PER_CACHED_EVENT * store.retention.cached_events)
        self._on_group_write = on_group_write

    def decode(self, served: ServedResource, entry: StoredEntry) -> Raw:
        """The stored object; it must not be changed."""
        return self._recent_writes.decode(served, entry)

    def is_decoded(self, served: ServedResource, entry: StoredEntry) -> bool:
        """Whether the stored object is one of the latest writes."""
        return self._recent_writes.find(served, entry) is not None

    async def create_together(self, served: ServedResource, puts: Iterable[PutKey]) -> list[WriteOutcome]:
        """Write new objects in one transaction."""
        puts = list(puts)
        written = await self._store.commit(puts)
        for event in written.events:
            self._on_committed(served, event)
        return [created_outcome(served, put, event) for put, event in zip(puts, written.events, strict=True)]

    async def commit(
        self, served: ServedResource, operation: PutKey | DeleteKey, *beside: Proposal
    ) -> TransactionResult:
        """Write, preceded in the same transaction by the operations of `extra_writes`; each of them may refuse."""

        def propose(state: StagedState) -> list[Operation]:
            return [*(extra for extra_write in beside for extra in extra_write(state)), operation]

        written = await (self._store.transact(propose) if beside else self._store.commit([operation]))
        self._on_committed(served, written.events[-1])
        return written

    def _on_committed(self, served: ServedResource, event: StoreEvent) -> None:
        self._recent_writes.add(served, event)
        if callback := self._on_group_write.get(served.group):
            callback()


def stored_form(served: ServedResource, obj: Raw) -> bytes:
    """The stored form of an object; it names its version where a webhook converts between versions."""
    value = pack(served.to_stored(obj) if served.to_stored else obj)
    return value if served.converter is None else with_version(value, served.api_version)


def put_new(served: ServedResource, key: str, obj: Raw) -> PutKey:
    """The write of an object that must not exist yet."""
    return PutKey(key, stored_form(served, obj), ABSENT, event_memo(served, obj))


def created_outcome(served: ServedResource, put: PutKey, event: StoreEvent) -> WriteOutcome:
    return WriteOutcome(StoredObject(served, put.value, event.revision, event), created=True)
