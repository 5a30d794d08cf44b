"""A key is thought about soon, once, and never twice at the same time."""

import asyncio

from trimtab.clock import run_virtually
from trimtab.runtime.queue import WorkQueue


def test_asking_twice_is_asking_once() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add("a")
        assert await queue.take(5) == ["a"]

    run_virtually(story())


def test_a_key_that_changes_while_it_is_thought_about_comes_again_afterwards() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        await queue.take()
        queue.add("a")
        assert len(queue) == 0
        queue.done("a")
        assert await queue.take() == ["a"]

    run_virtually(story())


def test_higher_rank_goes_first_and_equals_keep_their_order() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(rank=lambda key: 1 if key.startswith("urgent") else 0)
        for key in ("b", "a", "urgent-1"):
            queue.add(key)
        assert await queue.take(3) == ["urgent-1", "b", "a"]

    run_virtually(story())


def test_each_retry_waits_twice_as_long_up_to_a_limit() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        waits = []
        for _ in range(20):
            waits.append(queue.retry("a"))
            queue.add("a")
            queue.done((await queue.take())[0])
        assert waits[:3] == [0.005, 0.01, 0.02]
        assert waits[-1] == 300
        queue.succeeded("a")
        assert queue.retry("a") == 0.005
        queue.close()

    run_virtually(story())


def test_an_appointment_is_kept_and_the_earlier_one_stands() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 10)
        queue.add_after("a", 60)
        assert await queue.take() == ["a"]
        assert asyncio.get_running_loop().time() == 10

    run_virtually(story())
