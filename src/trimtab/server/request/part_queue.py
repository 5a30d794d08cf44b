"""Parts of a stream that a client has sent and nobody has read yet, bounded in bytes.

The streams of one connection share a budget: a client that sends more than is read, to a command that does not read its input
or on hundreds of streams, uses up the budget of its connection and not the memory of the process.
"""

import asyncio

MAX_UNREAD_BYTES = 16 * 1024 * 1024
_BYTES_PER_PART = 256
"""What the queue itself needs for a part, so that many small ones count."""


class TooMuchUnread(Exception):
    """The client sends faster than it is read."""


class UnreadBudget:
    """The bytes that may wait on one connection."""

    def __init__(self, limit: int = MAX_UNREAD_BYTES) -> None:
        self.left = limit


class PartQueue:
    """The unread parts of one stream."""

    def __init__(self, budget: UnreadBudget | None = None) -> None:
        self._budget = budget or UnreadBudget()
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue()

    def put(self, part: bytes) -> None:
        cost = len(part) + _BYTES_PER_PART
        if cost > self._budget.left:
            raise TooMuchUnread
        self._budget.left -= cost
        self._parts.put_nowait(part)

    def put_end(self) -> None:
        """No part follows; the reader gets None."""
        self._parts.put_nowait(None)

    def is_empty(self) -> bool:
        return self._parts.empty()

    async def get(self) -> bytes | None:
        part = await self._parts.get()
        if part is not None:
            self._budget.left += len(part) + _BYTES_PER_PART
        return part
