"""Unread parts of a stream are bounded in bytes, and the streams of a connection share the bound."""

import asyncio

import pytest

from trimtab.server.request import part_queue
from trimtab.server.request.part_queue import SESSIONS, PartQueue, TooMuchUnread, UnreadBudget


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


def test_the_more_sessions_there_are_the_less_each_may_leave_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_queue, "MAX_UNREAD_BYTES_OF_ALL", 4000)
    queue = PartQueue()
    with SESSIONS.one_more():
        queue.put(b"x" * 1000)
        with SESSIONS.one_more(), SESSIONS.one_more(), pytest.raises(TooMuchUnread):
            queue.put(b"x" * 1000)
        queue.put(b"x" * 1000)
    assert SESSIONS.share() == 4000
