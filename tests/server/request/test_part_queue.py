"""Unread parts of a stream are bounded in bytes, and the streams of a connection share the bound."""

import asyncio

import pytest

from trimtab.server.request.part_queue import PartQueue, TooMuchUnread, UnreadBudget


def test_parts_are_read_in_order_and_then_the_end() -> None:
    async def scenario() -> None:
        queue = PartQueue()
        queue.put(b"a")
        queue.put(b"b")
        queue.put_end()
        assert [await queue.get() for _ in range(3)] == [b"a", b"b", None]
        assert queue.is_empty()

    asyncio.run(scenario())


def test_streams_of_a_connection_share_what_may_wait() -> None:
    async def scenario() -> None:
        budget = UnreadBudget(2000)
        first, second = PartQueue(budget), PartQueue(budget)
        first.put(b"x" * 1000)
        with pytest.raises(TooMuchUnread):
            second.put(b"x" * 1000)
        second.put_end()
        await first.get()
        second.put(b"x" * 1000)

    asyncio.run(scenario())


def test_many_small_parts_count_more_than_their_bytes() -> None:
    queue = PartQueue(UnreadBudget(10_000))
    with pytest.raises(TooMuchUnread):
        for _ in range(100):
            queue.put(b"x")
