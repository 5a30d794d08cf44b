"""Transactions are written in groups: what a group shares, and what happens to it when it fails."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab import errors
from trimtab.store.records import StoredEntry
from trimtab.store.sqlite import CommitBatch, Journal
from trimtab.store.store import Store
from trimtab.store.txn import DeleteKey, Operation, PutKey, StagedState

PODS = "/registry//pods/"
Open = Callable[..., Store]


def pod(name: str) -> str:
    return f"{PODS}default/{name}"


async def test_write_of_a_cancelled_caller_is_not_staged(on_disk: Open) -> None:
    store = on_disk()
    tasks = [asyncio.create_task(store.create(pod(str(n)), b"")) for n in range(2)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [entry.key for entry in store.list(PODS).entries] == [pod("0")]


async def test_writes_of_a_failed_group_fail_and_what_it_was_to_delete_is_deleted_later(on_disk: Open) -> None:
    store = on_disk()
    for _ in range(3):
        await store.commit([PutKey(pod("a"), b"")])
    journal = store._journal
    assert journal is not None
    written: list[CommitBatch] = []
    write = journal.write

    def fail_once(batch: CommitBatch) -> None:
        written.append(batch)
        if len(written) == 1:
            raise errors.StorageFull("no space left")
        write(batch)

    journal.write = fail_once  # type: ignore[method-assign]
    store.compact(store.revision)
    with pytest.raises(errors.StorageFull):
        await store.create(pod("b"), b"")
    assert store.get(pod("b")) is None
    await store.create(pod("c"), b"")
    failed, successful = written
    assert failed.stale
    assert list(successful.stale) == list(failed.stale)


async def test_write_one_loop_turn_later_joins_the_same_group_commit(
    on_disk: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    write = Journal.write

    def count_events(journal: Journal, batch: CommitBatch) -> None:
        groups.append(len(batch.events))
        write(journal, batch)

    monkeypatch.setattr(Journal, "write", count_events)
    store = on_disk()

    async def write_later() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await store.create(pod("b"), b"")

    await asyncio.gather(store.create(pod("a"), b""), write_later())
    assert groups == [2]


async def test_transaction_lists_include_earlier_writes_of_its_group(store: Store) -> None:
    await store.commit([PutKey(pod("a"), b""), PutKey(pod("b"), b"")])
    counts: list[int] = []

    def add(name: str) -> Callable[[StagedState], list[Operation]]:
        def propose(state: StagedState) -> list[Operation]:
            counts.append(len(state.list(PODS)))
            return [PutKey(pod(name), b""), DeleteKey(pod("a"))]

        return propose

    await asyncio.gather(store.transact(add("c")), store.transact(add("d")))
    assert counts == [2, 2]
    assert [entry.key for entry in store.list(PODS).entries] == [pod("b"), pod("c"), pod("d")]


async def test_invalid_transaction_does_not_affect_others_of_its_group(store: Store) -> None:
    outcomes = await asyncio.gather(
        store.create(pod("a"), b"good"),
        store.create(pod("b"), "no bytes"),  # type: ignore[arg-type]
        store.create(pod("\ud800"), b""),
        store.commit([PutKey(pod("c"), b""), PutKey(pod("c"), b"")]),
        store.create(pod("d"), b"good"),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [
        StoredEntry,
        TypeError,
        UnicodeEncodeError,
        ValueError,
        StoredEntry,
    ]
    assert store.count(PODS) == 2


async def test_cancelled_caller_does_not_stop_the_store(store: Store) -> None:
    tasks = [asyncio.create_task(store.create(pod(str(n)), b"")) for n in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert store.get(pod("3")) is not None
    assert await store.create(pod("later"), b"")


async def test_nothing_is_visible_before_it_is_durable(on_disk: Open) -> None:
    store = on_disk()
    journal = store._journal
    assert journal is not None
    visible: list[object] = []
    write = journal.write

    def read_then_write(batch: object) -> None:
        visible.append((store.get(pod("a")), store.count(PODS), store.revision))
        write(batch)  # type: ignore[arg-type]

    journal.write = read_then_write  # type: ignore[method-assign, assignment]
    await store.create(pod("a"), b"")
    assert visible == [(None, 0, 1)]
    assert store.revision == 2


async def test_concurrent_writers_share_one_commit(on_disk: Open) -> None:
    store = on_disk()
    journal = store._journal
    assert journal is not None
    sizes: list[int] = []
    write = journal.write
    journal.write = lambda batch: (sizes.append(len(batch.events)), write(batch))[1]  # type: ignore[method-assign]
    await asyncio.gather(*(store.create(pod(str(n)), b"") for n in range(200)))
    assert sizes == [200]


async def test_close_finishes_accepted_writes_and_refuses_new_ones(on_disk: Open) -> None:
    store = on_disk()
    accepted = [asyncio.create_task(store.create(pod(str(n)), b"")) for n in range(10)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*accepted)
    with pytest.raises(errors.Unavailable):
        await store.create(pod("late"), b"")
    assert on_disk().count(PODS) == 10


def test_store_gathers_writes_only_until_their_commit_begins(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = Store.open(tmp_path)
        assert not store.is_gathering
        writing = asyncio.ensure_future(store.create(pod("a"), b"one"))
        await asyncio.sleep(0)
        assert store.is_gathering
        for _ in range(10):
            await asyncio.sleep(0)
        assert not store.is_gathering
        await writing
        await store.close()

    asyncio.run(scenario())
