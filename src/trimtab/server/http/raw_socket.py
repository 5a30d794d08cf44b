"""A connection after an upgrade to a protocol that is not WebSocket: its bytes as they arrive."""

import asyncio
from collections.abc import Callable

_QUEUED_PARTS = 1000


def spdy_handshake(protocol: str) -> bytes:
    """The response that turns a request into a SPDY connection for this protocol of streams."""
    lines = ("HTTP/1.1 101 Switching Protocols", "upgrade: SPDY/3.1", "connection: Upgrade")
    return "\r\n".join([*lines, f"x-stream-protocol-version: {protocol}", "", ""]).encode()


class RawSocket:
    """One connection: bytes of the client in a queue, bytes to it at once."""

    def __init__(self, write: Callable[[bytes], None], close: Callable[[], None]) -> None:
        self._write, self._close = write, close
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=_QUEUED_PARTS)
        self._is_closed = False

    def feed(self, data: bytes) -> None:
        try:
            self._parts.put_nowait(data)
        except asyncio.QueueFull:  # the client sends faster than it is served
            self.close()

    def feed_eof(self) -> None:
        """The client is gone."""
        self._is_closed = True
        if not self._parts.full():
            self._parts.put_nowait(None)

    async def receive(self) -> bytes | None:
        """The next bytes; None when there will be no more."""
        return None if self._is_closed and self._parts.empty() else await self._parts.get()

    def send(self, payload: bytes) -> None:
        if not self._is_closed:
            self._write(payload)

    def close(self) -> None:
        if not self._is_closed:
            self.feed_eof()
            self._close()
