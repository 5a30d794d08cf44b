import asyncio
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab import errors
from trimtab.store.index import Retention
from trimtab.store.records import StoredEntry
from trimtab.store.sqlite import CommitBatch, Journal
from trimtab.store.store import Store
from trimtab.store.txn import CheckKey, DeleteKey, Operation, PutKey, RevisionMismatch, StagedState

PODS = "/registry//pods/"
BUDGET = "/registry/policy/poddisruptionbudgets/default/web"
Open = Callable[..., Store]


def pod(name: str, namespace: str = "default") -> str:
    return f"{PODS}{namespace}/{name}"


async def test_created_entry_is_readable_with_its_revisions(store: Store) -> None:
    created = await store.create(pod("a"), b"one")
    updated = await store.update(pod("a"), b"two", created.mod_revision)
    assert created.mod_revision > 1
    assert store.get(pod("a")) == updated
    assert (updated.value, updated.create_revision) == (b"two", created.mod_revision)
    assert updated.mod_revision == created.mod_revision + 1 == store.revision


async def test_deletion_removes_the_key_and_takes_its_own_revision(store: Store) -> None:
    entry = await store.create(pod("a"), b"one")
    deletion = await store.delete(pod("a"), entry.mod_revision)
    assert store.get(pod("a")) is None
    assert deletion is not None
    assert (deletion.type, deletion.previous, deletion.revision) == ("DELETED", entry, entry.mod_revision + 1)


async def test_deleting_a_missing_key_takes_no_revision(store: Store) -> None:
    before = store.revision
    assert await store.delete(pod("ghost")) is None
    assert store.revision == before


async def test_creating_an_existing_key_is_a_mismatch(store: Store) -> None:
    entry = await store.create(pod("a"), b"one")
    with pytest.raises(RevisionMismatch, match="was expected absent, but it is at revision 2") as refusal:
        await store.create(pod("a"), b"two")
    assert (refusal.value.key, refusal.value.current) == (pod("a"), entry)


async def test_update_with_an_old_revision_is_a_mismatch(store: Store) -> None:
    old = await store.create(pod("a"), b"one")
    new = await store.update(pod("a"), b"two", old.mod_revision)
    with pytest.raises(RevisionMismatch) as refusal:
        await store.update(pod("a"), b"three", old.mod_revision)
    assert refusal.value.current == new
    with pytest.raises(errors.Conflict):
        await store.delete(pod("a"), old.mod_revision)
    with pytest.raises(RevisionMismatch, match="but it does not exist"):
        await store.update(pod("ghost"), b"", 7)


async def test_transaction_is_atomic(store: Store) -> None:
    budget = await store.create(BUDGET, b"1")
    entry = await store.create(pod("a"), b"")
    evict: list[Operation] = [PutKey(BUDGET, b"0", budget.mod_revision), DeleteKey(pod("a"), entry.mod_revision)]
    with pytest.raises(RevisionMismatch):
        await store.commit([*evict, CheckKey(pod("b"), 3)])
    assert (store.get(BUDGET), store.get(pod("a"))) == (budget, entry)

    written = await store.commit([*evict, CheckKey(pod("b"), 0)])
    assert [event.type for event in written.events] == ["MODIFIED", "DELETED"]
    assert [event.revision for event in written.events] == [written.revision - 1, written.revision]
    assert store.revision == written.revision


async def test_exactly_one_of_many_concurrent_updates_succeeds(store: Store) -> None:
    entry = await store.create(pod("a"), b"")
    attempts = (store.update(pod("a"), bytes([n]), entry.mod_revision) for n in range(20))
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    (winner,) = (outcome for outcome in outcomes if not isinstance(outcome, BaseException))
    losers = [outcome for outcome in outcomes if isinstance(outcome, RevisionMismatch)]
    assert len(losers) == 19
    assert all(loser.current == winner for loser in losers)


async def test_concurrent_transactions_never_overdraw_a_counter(store: Store) -> None:
    await store.create(BUDGET, b"5")

    def debit(state: StagedState) -> list[Operation]:
        budget = state.get(BUDGET)
        assert budget is not None
        if budget.value == b"0":
            raise errors.TooManyRequests("the budget is used up")
        return [PutKey(BUDGET, str(int(budget.value) - 1).encode())]

    outcomes = await asyncio.gather(*(store.transact(debit) for _ in range(12)), return_exceptions=True)
    assert sum(isinstance(outcome, errors.TooManyRequests) for outcome in outcomes) == 7
    final = store.get(BUDGET)
    assert final is not None
    assert final.value == b"0"


async def test_list_is_in_key_order_and_limited_to_its_prefix(store: Store) -> None:
    for key in (pod("b"), pod("a"), pod("a", "other"), "/registry//podtemplates/default/a", "/registry/x", "/z"):
        await store.create(key, key.encode())
    assert [entry.key for entry in store.list(PODS).entries] == [pod("a"), pod("b"), pod("a", "other")]
    assert [entry.key for entry in store.list(PODS + "default/").entries] == [pod("a"), pod("b")]
    assert [entry.key for entry in store.list("/registry/").entries][-2:] == [
        "/registry//podtemplates/default/a",
        "/registry/x",
    ]
    assert store.count("/") == 6
    assert store.list("/registry//nothing/").entries == []


async def test_pages_show_the_revision_of_the_first_page(store: Store) -> None:
    for name in "abcdef":
        await store.create(pod(name), name.encode())
    first = store.list(PODS, limit=2)
    assert ([entry.key[-1] for entry in first.entries], first.remaining) == (["a", "b"], 4)

    await store.commit(
        [DeleteKey(pod("c")), PutKey(pod("d"), b"changed"), PutKey(pod("bb"), b"new"), DeleteKey(pod("a"))]
    )
    await store.create(pod("c"), b"again")
    second = store.list(PODS, start_after=pod("b"), limit=3, at_revision=first.revision)
    assert [entry.value for entry in second.entries] == [b"c", b"d", b"e"]
    assert (second.revision, second.remaining) == (first.revision, 1)
    assert [entry.value for entry in store.list(PODS, at_revision=first.revision).entries] == [
        c.encode() for c in "abcdef"
    ]


async def test_list_at_a_compacted_or_future_revision_is_refused(store: Store) -> None:
    for n in range(5):
        await store.create(pod(str(n)), b"")
    store.compact(4)
    with pytest.raises(errors.Expired, match=r"too old resource version: 3 \(4\)"):
        store.list(PODS, at_revision=3)
    assert len(store.list(PODS, at_revision=4).entries) == 3
    with pytest.raises(errors.TimedOut, match="Too large resource version: 99, current: 6") as refusal:
        store.list(PODS, at_revision=99)
    assert refusal.value.status()["details"]["retryAfterSeconds"] == 1


async def test_history_is_limited_by_number_of_revisions() -> None:
    store = Store(Retention(revisions=100))
    for n in range(1000):
        await store.commit([PutKey(pod("a"), str(n).encode())])
    assert 100 <= store.revision - store.compacted_revision <= 107


async def test_history_is_limited_by_size_of_replaced_values() -> None:
    store = Store(Retention(superseded_bytes=100_000))
    for _ in range(1000):
        await store.commit([PutKey(pod("a"), bytes(1000))])
    assert 100 <= store.revision - store.compacted_revision <= 110


async def test_state_and_history_survive_close_and_open(on_disk: Open) -> None:
    store = on_disk()
    kept = await store.create(pod("kept"), b"1")
    kept = await store.update(pod("kept"), b"2", kept.mod_revision)
    await store.create(pod("gone"), b"")
    await store.delete(pod("gone"))
    await store.close()

    reopened = on_disk()
    assert reopened.list("/").entries == [kept]
    assert reopened.revision == store.revision
    events = await reopened.watch(PODS, 1).next()
    assert [(e.type, e.key, e.prev_value, e.revision) for e in events] == [
        ("ADDED", pod("kept"), None, 2),
        ("MODIFIED", pod("kept"), b"1", 3),
        ("ADDED", pod("gone"), None, 4),
        ("DELETED", pod("gone"), b"", 5),
    ]
    assert (await reopened.create(pod("next"), b"")).mod_revision == 6


async def test_revision_is_never_reused_even_if_the_last_one_is_compacted(on_disk: Open) -> None:
    store = on_disk()
    await store.create(pod("a"), b"")
    await store.delete(pod("a"))
    store.compact(store.revision)
    await store.close()
    reopened = on_disk()
    assert (reopened.revision, reopened.compacted_revision) == (3, 3)
    assert (await reopened.create(pod("a"), b"")).mod_revision == 4


async def test_file_size_does_not_grow_with_the_number_of_writes(on_disk: Open, tmp_path: Path) -> None:
    store = on_disk(Retention(revisions=64))
    for round_ in range(60):
        await asyncio.gather(*(store.commit([PutKey(pod(str(n)), bytes([round_]) * 4000)]) for n in range(50)))
    await store.close()
    assert (tmp_path / "store.db").stat().st_size < 4_000_000
    assert on_disk().count(PODS) == 50


async def test_file_shrinks_after_most_keys_are_deleted(on_disk: Open, tmp_path: Path) -> None:
    store = on_disk(Retention(revisions=10))
    await store.commit([PutKey(pod(str(n)), bytes(8000)) for n in range(1000)])
    await store.commit([DeleteKey(pod(str(n))) for n in range(1000)])
    for n in range(10):
        store.compact(store.revision)
        await store.commit([PutKey(pod("last"), bytes([n]))])
    await store.close()
    assert (tmp_path / "store.db").stat().st_size < 2_500_000


async def test_ten_thousand_objects_use_little_more_memory_than_their_bytes() -> None:
    store = Store()
    tracemalloc.start()
    try:
        for n in range(10_000):
            await store.create(pod(f"name-of-some-length-{n}"), bytes(500))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / 10_000 < 500 + 450


def test_store_works_on_uvloop(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def scenario() -> None:
        store = Store.open(tmp_path)
        await asyncio.gather(*(store.create(pod(str(n)), b"") for n in range(50)))
        assert len(await store.watch(PODS, 1).next()) == 50
        assert await store.watch(PODS).next(0.01) == []
        await store.close()

    uvloop.run(scenario())


def test_in_memory_stores_have_no_writer_thread() -> None:
    async def scenario() -> None:
        stores = [Store() for _ in range(100)]
        await asyncio.gather(*(store.create(pod("a"), b"") for store in stores))
        assert all(store._group_commit is None for store in stores)

    asyncio.run(scenario())


async def test_store_closes_while_it_is_full(on_disk: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    store = on_disk()
    journal = store._journal
    assert journal is not None

    def refuse(*_: object) -> None:
        raise errors.StorageFull("no space left")

    monkeypatch.setattr(journal, "write", refuse)
    with pytest.raises(errors.StorageFull):
        await store.create(pod("a"), b"")
    await store.close()
    assert on_disk().count(PODS) == 0


async def test_watch_of_a_compacted_revision_is_refused_at_once(store: Store) -> None:
    for name in "abc":
        await store.create(pod(name), b"")
    store.compact(store.revision - 1)
    store.watch(PODS, store.compacted_revision)
    with pytest.raises(errors.Expired):
        store.watch(PODS, store.compacted_revision - 1)


async def test_store_that_is_full_for_large_values_only_does_not_fill_the_log(
    on_disk: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = on_disk()
    write = Journal.write

    def refuse_large(journal: Journal, batch: CommitBatch) -> None:
        if any(len(event.last_value) > 100 for event in batch.events):
            raise errors.StorageFull("no space left")
        write(journal, batch)

    monkeypatch.setattr(Journal, "write", refuse_large)
    for number in range(5):
        with pytest.raises(errors.StorageFull):
            await store.create(pod("large"), b"x" * 200)
        await store.create(pod(str(number)), b"x")
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "writes are refused",
        "writes work again",
    ]
    await store.close()


async def test_a_filled_store_goes_on_where_its_entries_end() -> None:
    store = Store()
    store.fill([StoredEntry(pod("b"), b"two", 7, 7), StoredEntry(pod("a"), b"one", 9, 3)])
    assert [(entry.key, entry.value) for entry in store.list(PODS).entries] == [(pod("a"), b"one"), (pod("b"), b"two")]
    watch = store.watch(PODS, store.revision)
    updated = await store.update(pod("a"), b"three", 9)
    assert (updated.mod_revision, updated.create_revision) == (10, 3)
    assert [(event.key, event.prev_value) for event in await watch.next()] == [(pod("a"), b"one")]
    with pytest.raises(errors.Expired):
        store.watch(PODS, 8)
    with pytest.raises(ValueError, match="only an empty store"):
        store.fill([])


async def test_a_store_on_disk_is_not_filled(on_disk: Open) -> None:
    with pytest.raises(ValueError, match="only an empty store"):
        on_disk().fill([StoredEntry(pod("a"), b"one", 2, 2)])
