"""Parts of a stream that a client has sent and nobody has read yet, bounded in bytes.

The streams of one connection share a budget: a client that sends more than is read, to a command that does not read its input
or on hundreds of streams, uses up the budget of its connection and not the memory of the process. The connections share what all
of them may hold: the more sessions there are, the less each may leave unread.
"""

import asyncio
import contextlib
from collections.abc import Iterator

MAX_UNREAD_BYTES = 16 * 1024 * 1024
"""Of one connection, in each direction."""
MAX_UNREAD_BYTES_OF_ALL = 128 * 1024 * 1024
"""Of all connections, in each direction."""
_BYTES_PER_PART = 256
"""What the queue itself needs for a part, so that many small ones count."""


class TooMuchUnread(Exception):
    """The client sends faster than it is read."""


class OpenSessions:
    """Counts the sessions of the process."""

    def __init__(self) -> None:
        self._count = 0

    @contextlib.contextmanager
    def one_more(self) -> Iterator[None]:
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    def share(self) -> int:
        """The bytes that may wait on each connection now."""
        return min(MAX_UNREAD_BYTES, MAX_UNREAD_BYTES_OF_ALL // max(self._count, 1))


SESSIONS = OpenSessions()


class UnreadBudget:
    """The bytes that wait on one connection."""

    def __init__(self, limit: int = MAX_UNREAD_BYTES) -> None:
        self._limit = limit
        self._used = 0

    def take(self, cost: int) -> None:
        if self._used + cost > min(self._limit, SESSIONS.share()):
            raise TooMuchUnread
        self._used += cost

    def give_back(self, cost: int) -> None:
        self._used -= cost


class PartQueue:
    """The unread parts of one stream."""

    def __init__(self, budget: UnreadBudget | None = None) -> None:
        self._budget = budget or UnreadBudget()
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue()

    def put(self, part: bytes) -> None:
        self._budget.take(len(part) + _BYTES_PER_PART)
        self._parts.put_nowait(part)

    def put_end(self) -> None:
        """No part follows; the reader gets None."""
        self._parts.put_nowait(None)

    def is_empty(self) -> bool:
        return self._parts.empty()

    async def get(self) -> bytes | None:
        part = await self._parts.get()
        if part is not None:
            self._budget.give_back(len(part) + _BYTES_PER_PART)
        return part
