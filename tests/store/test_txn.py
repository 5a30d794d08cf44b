import asyncio
from collections.abc import Callable, Iterator

import pytest

from trimtab import errors
from trimtab.store.index import MemoryIndex, Retention
from trimtab.store.records import StoredEntry, StoreEvent
from trimtab.store.sqlite import CommitBatch
from trimtab.store.store import Store
from trimtab.store.txn import (
    ABSENT,
    CheckKey,
    DeleteKey,
    Operation,
    PutKey,
    RevisionMismatch,
    StagedState,
    UnsettledWrite,
)

KEY = "/registry//pods/default/a"


def proposal(*operations: Operation) -> Callable[[StagedState], Iterator[Operation]]:
    return lambda _: iter(operations)


def index_with(*entries: StoredEntry) -> MemoryIndex:
    index = MemoryIndex(Retention())
    index.apply([StoreEvent(entry.key, entry.mod_revision, entry, None) for entry in entries])
    return index


def test_every_changed_key_takes_the_next_revision() -> None:
    written = StagedState(index_with()).run(
        proposal(PutKey("/a", b""), DeleteKey("/gone"), CheckKey("/none", ABSENT), PutKey("/b", b""))
    )
    assert [(event.key, event.revision) for event in written.events] == [("/a", 2), ("/b", 3)]
    assert written.revision == 3


def test_refused_transaction_leaves_nothing_behind() -> None:
    state = StagedState(index_with())
    with pytest.raises(RevisionMismatch):
        state.run(proposal(PutKey("/a", b""), CheckKey("/b", 7)))
    assert state.events == []
    assert state.get("/a") is None


@pytest.mark.parametrize("operation", [PutKey("/a\ud800", b""), PutKey("/a", bytearray(b"x"))])
def test_what_cannot_be_stored_fails_its_own_transaction_and_not_the_group(operation: PutKey) -> None:
    state = StagedState(index_with())
    state.run(proposal(PutKey("/first", b"")))
    with pytest.raises((UnicodeEncodeError, TypeError)):
        state.run(proposal(operation))
    assert [event.key for event in state.events] == ["/first"]


def test_transaction_may_build_on_an_earlier_one_of_its_group() -> None:
    state = StagedState(index_with(StoredEntry(KEY, b"old", 2, 2)))
    state.run(proposal(PutKey(KEY, b"new")))
    entry = state.get(KEY)
    assert entry is not None
    assert (entry.value, entry.create_revision) == (b"new", 2)
    written = state.run(proposal(DeleteKey(KEY)))
    assert written.events[0].previous == entry
    assert state.list("/registry/") == []


def test_refusal_that_depends_on_a_pending_write_is_unsettled() -> None:
    state = StagedState(index_with(StoredEntry(KEY, b"old", 2, 2)))
    state.run(proposal(PutKey(KEY, b"new")))
    with pytest.raises(UnsettledWrite):
        state.run(proposal(PutKey(KEY, b"newer", 2)))
    with pytest.raises(RevisionMismatch):
        state.run(proposal(PutKey("/other", b"", 2)))


async def test_transaction_is_not_refused_because_of_a_write_that_failed(on_disk: Callable[..., Store]) -> None:
    store = on_disk()
    journal = store._journal
    assert journal is not None
    write = journal.write

    def fail_once(batch: CommitBatch) -> None:
        journal.write = write  # type: ignore[method-assign]
        raise errors.StoreError("the disk is full")

    journal.write = fail_once  # type: ignore[method-assign]
    first, second = await asyncio.gather(
        store.create(KEY, b"first"), store.create(KEY, b"second"), return_exceptions=True
    )
    assert isinstance(first, errors.StoreError)
    assert isinstance(second, StoredEntry)
    assert store.get(KEY) == second


def test_key_is_written_once_in_a_transaction() -> None:
    state = StagedState(index_with())
    with pytest.raises(ValueError, match="two operations on /a"):
        state.run(proposal(PutKey("/a", b"1"), PutKey("/b", b""), PutKey("/a", b"2")))
    assert state.events == []
