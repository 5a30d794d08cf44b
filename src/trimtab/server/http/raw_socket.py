"""A connection after an upgrade to a protocol that is not WebSocket: its bytes as they arrive."""

import asyncio
from collections.abc import Callable

from trimtab.server.request.part_queue import PartQueue, TooMuchUnread


def spdy_handshake(protocol: str) -> bytes:
    """The response that turns a request into a SPDY connection for this protocol of streams."""
    lines = ("HTTP/1.1 101 Switching Protocols", "upgrade: SPDY/3.1", "connection: Upgrade")
    return "\r\n".join([*lines, f"x-stream-protocol-version: {protocol}", "", ""]).encode()


class RawSocket:
    """One connection: bytes of the client in a queue, bytes to it at once."""

    def __init__(self, write: Callable[[bytes], None], close: Callable[[], None]) -> None:
        self._write, self._close = write, close
        self._parts = PartQueue()
        self._is_closed = False
        self._closed = asyncio.Event()

    def feed(self, data: bytes) -> None:
        try:
            self._parts.put(data)
        except TooMuchUnread:
            self.close()

    def feed_eof(self) -> None:
        """The client is gone."""
        self._is_closed = True
        self._parts.put_end()
        self._closed.set()

    async def receive(self) -> bytes | None:
        """The next bytes; None when there will be no more."""
        return None if self._is_closed and self._parts.is_empty() else await self._parts.get()

    def send(self, payload: bytes) -> None:
        if not self._is_closed:
            self._write(payload)

    def close(self) -> None:
        if not self._is_closed:
            self.feed_eof()
            self._close()

    async def wait_until_closed(self) -> None:
        await self._closed.wait()
