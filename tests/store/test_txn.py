import asyncio
from collections.abc import Callable, Iterator

import pytest

from trimtab import errors
from trimtab.store.index import Index, Keep
from trimtab.store.records import Entry, Event
from trimtab.store.sqlite import Batch
from trimtab.store.store import Store
from trimtab.store.txn import ABSENT, Check, Delete, Draft, Mismatch, Operation, Put, Unsettled

KEY = "/registry//pods/default/a"


def proposal(*operations: Operation) -> Callable[[Draft], Iterator[Operation]]:
    return lambda _: iter(operations)


def index_with(*entries: Entry) -> Index:
    index = Index(Keep())
    index.apply([Event(entry.key, entry.mod_revision, entry, None) for entry in entries])
    return index


def test_every_changed_key_takes_the_next_revision() -> None:
    written = Draft(index_with()).run(proposal(Put("/a", b""), Delete("/gone"), Check("/none", ABSENT), Put("/b", b"")))
    assert [(event.key, event.revision) for event in written.events] == [("/a", 2), ("/b", 3)]
    assert written.revision == 3


def test_refused_transaction_leaves_nothing_behind() -> None:
    draft = Draft(index_with())
    with pytest.raises(Mismatch):
        draft.run(proposal(Put("/a", b""), Check("/b", 7)))
    assert draft.events == []
    assert draft.get("/a") is None


def test_transaction_may_build_on_an_earlier_one_of_its_group() -> None:
    draft = Draft(index_with(Entry(KEY, b"old", 2, 2)))
    draft.run(proposal(Put(KEY, b"new")))
    entry = draft.get(KEY)
    assert entry is not None
    assert (entry.value, entry.create_revision) == (b"new", 2)
    written = draft.run(proposal(Delete(KEY)))
    assert written.events[0].previous == entry
    assert draft.list("/registry/") == []


def test_refusal_that_depends_on_a_pending_write_is_unsettled() -> None:
    draft = Draft(index_with(Entry(KEY, b"old", 2, 2)))
    draft.run(proposal(Put(KEY, b"new")))
    with pytest.raises(Unsettled):
        draft.run(proposal(Put(KEY, b"newer", 2)))
    with pytest.raises(Mismatch):
        draft.run(proposal(Put("/other", b"", 2)))


async def test_transaction_is_not_refused_because_of_a_write_that_failed(on_disk: Callable[..., Store]) -> None:
    store = on_disk()
    journal = store._journal
    assert journal is not None
    write = journal.write

    def fail_once(batch: Batch) -> None:
        journal.write = write  # type: ignore[method-assign]
        raise errors.StoreFault("the disk is full")

    journal.write = fail_once  # type: ignore[method-assign]
    first, second = await asyncio.gather(
        store.create(KEY, b"first"), store.create(KEY, b"second"), return_exceptions=True
    )
    assert isinstance(first, errors.StoreFault)
    assert isinstance(second, Entry)
    assert store.get(KEY) == second
