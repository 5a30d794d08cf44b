import asyncio
import itertools

import pytest

from trimtab import errors
from trimtab.clock import run_virtually
from trimtab.store.index import Retention
from trimtab.store.store import Store
from trimtab.store.txn import DeleteKey, PutKey

PODS = "/registry//pods/"


def pod(name: str, namespace: str = "default") -> str:
    return f"{PODS}{namespace}/{name}"


async def test_watch_returns_every_change_once_and_in_order(store: Store) -> None:
    watch = store.watch(PODS)
    entry = await store.create(pod("a"), b"1")
    await store.update(pod("a"), b"2", entry.mod_revision)
    await store.delete(pod("a"))
    events = [*await watch.next()]
    assert [(e.type, e.value, e.prev_value) for e in events] == [
        ("ADDED", b"1", None),
        ("MODIFIED", b"2", b"1"),
        ("DELETED", None, b"2"),
    ]
    assert [e.revision for e in events] == [2, 3, 4]
    assert watch.revision == 4


async def test_watch_can_be_resumed_between_any_two_events(store: Store) -> None:
    await store.commit([PutKey(pod(str(n)), b"") for n in range(6)])
    await store.commit([DeleteKey(pod("3")), PutKey(pod("4"), b"x")])
    all_events = [*await store.watch(PODS, 1).next()]
    for cut in range(len(all_events)):
        rest = await store.watch(PODS, all_events[cut].revision).next(0)
        assert [*rest] == all_events[cut + 1 :]


async def test_watch_returns_only_events_under_its_prefix(store: Store) -> None:
    inside, wide, one = store.watch(PODS + "default/"), store.watch("/registry/"), store.watch(pod("a"))
    await store.commit(
        [PutKey(pod("a"), b""), PutKey(pod("a", "other"), b""), PutKey("/registry/apps/deployments/x/y", b"")]
    )
    assert [e.key for e in await inside.next()] == [pod("a")]
    assert len(await wide.next()) == 3
    assert [e.key for e in await one.next()] == [pod("a")]
    assert inside.revision == wide.revision == store.revision


async def test_watches_share_events_and_their_memos(store: Store) -> None:
    first, second = store.watch(PODS), store.watch("/registry/")
    await store.create(pod("a"), b"")
    (event,) = await first.next()
    event.memo = b"encoded once"
    (same,) = await second.next()
    assert same.memo is event.memo


async def test_memo_of_an_old_event_is_dropped() -> None:
    store = Store()
    watch = store.watch(PODS)
    await store.create(pod("a"), b"")
    (event,) = await watch.next()
    event.memo = b"encoded"
    await store.commit([PutKey(pod(str(n)), b"") for n in range(600)])
    assert event.memo is None


async def test_waiting_watch_wakes_up_on_a_write(store: Store) -> None:
    watch = store.watch(PODS)
    waiting = asyncio.create_task(watch.next())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await store.create(pod("a"), b"")
    assert len(await waiting) == 1


async def test_watch_batches_are_limited_and_complete(store: Store) -> None:
    await store.commit([PutKey(pod(str(n)), b"") for n in range(10)])
    watch = store.watch(PODS, 1, limit=4)
    assert [len(await watch.next()) for _ in range(3)] == [4, 4, 2]
    assert watch.revision == store.revision


def test_idle_watch_returns_the_current_revision_for_a_bookmark() -> None:
    async def scenario() -> None:
        store = Store()
        watch = store.watch(PODS)
        await store.create("/registry//nodes//n", b"")
        assert await watch.next(60) == []
        assert watch.revision == store.revision
        assert asyncio.get_running_loop().time() == pytest.approx(60)

    run_virtually(scenario())


async def test_watch_from_a_compacted_revision_is_refused(store: Store) -> None:
    await store.commit([PutKey(pod(str(n)), b"") for n in range(10)])
    store.compact(6)
    with pytest.raises(errors.Expired, match=r"too old resource version: 5 \(6\)"):
        store.watch(PODS, 5)
    assert len(await store.watch(PODS, 6).next()) == 5


async def test_watch_from_a_future_revision_waits_for_it(store: Store) -> None:
    watch = store.watch(PODS, 4)
    for name in "abcd":
        await store.create(pod(name), b"")
    assert [e.revision for e in await watch.next()] == [5]


@pytest.mark.parametrize("prefix", [PODS, "/registry/"])
async def test_slow_watch_expires_with_an_error(prefix: str) -> None:
    store = Store(Retention(revisions=50))
    slow, quick = store.watch(prefix), store.watch(prefix)
    for n in range(200):
        await store.commit([PutKey(pod("a"), str(n).encode())])
        await quick.next()
    with pytest.raises(errors.Expired, match="too old resource version: 1 "):
        await slow.next()


@pytest.mark.parametrize("prefix", ["/registry//secrets/", "/registry//s"])
async def test_idle_watch_does_not_expire_because_of_writes_elsewhere(prefix: str) -> None:
    store = Store(Retention(revisions=50))
    quiet = store.watch(prefix)
    waiting = asyncio.create_task(quiet.next())
    for n in range(500):
        await store.commit([PutKey(pod("a"), str(n).encode())])
        await asyncio.sleep(0)
    await store.create("/registry//secrets/default/a", b"")
    assert [e.key for e in await waiting] == ["/registry//secrets/default/a"]


async def test_slow_watch_learns_that_the_deletion_of_the_last_object_was_dropped(store: Store) -> None:
    await store.create(pod("a"), b"")
    slow = store.watch(PODS)
    await store.delete(pod("a"))
    store.compact(store.revision)
    with pytest.raises(errors.Expired):
        await slow.next(0)
    await store.close()  # in the loop in which its last write ends


async def test_timed_out_and_cancelled_watches_are_removed_from_the_waiters(store: Store) -> None:
    for prefix in (PODS, "/registry/"):
        await store.watch(prefix).next(0)
        cancelled = asyncio.create_task(store.watch(prefix).next())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert not store._index.waiters(prefix)


async def test_close_ends_all_watches(store: Store) -> None:
    async def read() -> int:
        return sum([len(batch) async for batch in store.watch(PODS, 1)])

    await store.create(pod("a"), b"")
    reading = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    await store.close()
    assert await reading == 1
    with pytest.raises(errors.Unavailable):
        await store.watch(PODS).next()


def test_history_is_limited_by_age_in_the_time_of_the_loop() -> None:
    async def scenario() -> None:
        store = Store(Retention(seconds=600))
        for minute in itertools.count():
            await store.commit([PutKey(pod("a"), str(minute).encode())])
            await asyncio.sleep(60)
            if minute == 60:
                break
        assert 10 <= store.revision - store.compacted_revision <= 12

    run_virtually(scenario())


async def test_concurrent_watches_see_one_order_of_writes(store: Store) -> None:
    async def read(watch_prefix: str) -> list[int]:
        revisions: list[int] = []
        async for batch in store.watch(watch_prefix, 1, limit=7):
            revisions += (event.revision for event in batch)
            if len(revisions) >= 400:
                break
        return revisions

    readers = [asyncio.create_task(read(prefix)) for prefix in (PODS, "/registry/", "/")]

    async def write(writer: int) -> None:
        for n in range(50):
            await store.commit([PutKey(pod(f"{writer}-{n % 5}"), str(n).encode())])

    await asyncio.gather(*(write(n) for n in range(8)))
    for revisions in await asyncio.gather(*readers):
        assert revisions == list(range(2, 402))


def test_watches_wake_up_in_the_order_they_started_to_wait() -> None:
    async def scenario() -> list[int]:
        store, woken = Store(), []

        async def wait(number: int) -> None:
            await store.watch(PODS).next()
            woken.append(number)

        waiting = [asyncio.ensure_future(wait(number)) for number in range(50)]
        await asyncio.sleep(0)
        await store.create(pod("a"), b"1")
        await asyncio.gather(*waiting)
        return woken

    assert run_virtually(scenario()) == list(range(50))
