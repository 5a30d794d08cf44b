"""A key is queued once and never handed out while it is being processed."""

import asyncio
from types import SimpleNamespace

import pytest

from trimtab.clock import run_virtually
from trimtab.runtime import queue as queue_module
from trimtab.runtime.queue import WorkQueue


def test_key_added_twice_is_taken_once() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add("a")
        assert await queue.take(5) == ["a"]

    run_virtually(scenario())


def test_key_added_while_processed_is_queued_again_afterwards() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        await queue.take()
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert await queue.take() == ["a"]

    run_virtually(scenario())


def test_age_is_that_of_the_key_that_waits_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((100.0, 130.0, 150.0, 170.0, 180.0, 200.0))
    monkeypatch.setattr(queue_module, "time", SimpleNamespace(monotonic=lambda: next(seconds)))

    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue(rank=lambda key: 1 if key == "urgent" else 0)
        assert queue.oldest_age == 0
        queue.add("old")
        queue.add("urgent")
        assert queue.oldest_age == 50
        assert await queue.take() == ["urgent"]
        queue.add("old")  # it waits already
        assert queue.oldest_age == 70
        assert await queue.take() == ["old"]
        queue.add("old")  # again after it is processed
        assert queue.oldest_age == 0
        queue.done("old")
        assert queue.oldest_age == 20

    run_virtually(scenario())


def test_higher_rank_is_taken_first_and_equal_ranks_keep_their_order() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue(rank=lambda key: 1 if key.startswith("urgent") else 0)
        for key in ("b", "a", "urgent-1"):
            queue.add(key)
        assert await queue.take(3) == ["urgent-1", "b", "a"]

    run_virtually(scenario())


def test_retry_delay_doubles_up_to_a_limit() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        delays = []
        for _ in range(20):
            delays.append(queue.retry("a"))
            queue.add("a")
            queue.done((await queue.take())[0])
        assert delays[:3] == [0.005, 0.01, 0.02]
        assert delays[-1] == 300
        queue.reset_backoff("a")
        assert queue.retry("a") == 0.005
        queue.close()

    run_virtually(scenario())


def test_earlier_timer_stays_in_force() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 10)
        queue.add_after("a", 60)
        assert await queue.take() == ["a"]
        assert asyncio.get_running_loop().time() == 10

    run_virtually(scenario())


def test_keys_that_wait_for_a_time_are_queued_once_when_the_clock_was_set() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 3600)
        queue.add_after("b", 8_640_000)
        queue.expire_timers()
        assert await queue.take(5) == ["a", "b"]
        queue.done("a")
        queue.done("b")
        await asyncio.sleep(10_000_000)
        assert queue.is_idle

    run_virtually(scenario())


def test_waiting_for_keys_in_progress_ends_when_they_are_done() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for key in ("m1/a", "m2/a"):
            queue.add(key)
        await queue.take(2)
        waiting = asyncio.ensure_future(queue.wait_until_done(lambda key: key.startswith("m1/")))
        await asyncio.sleep(1)
        assert not waiting.done()
        queue.done("m2/a")
        await asyncio.sleep(1)
        assert not waiting.done()
        queue.done("m1/a")
        await asyncio.wait_for(waiting, 1)

    run_virtually(scenario())
