"""What a client sends on an upgraded connection, passed on in small parts that take turns with other requests.

A session of `exec`, `attach` or `port-forward` may last for hours and has no seat. A part of 256 KiB can hold tens of thousands of
frames, and each costs the event loop as much as a large one. So reading pauses while a part is passed on, a few KiB in a turn.
"""

import asyncio
from collections.abc import Awaitable, Callable

from trimtab.server.http.exchange import UpgradedSocket

BYTES_PER_TURN = 4096


class SessionInput:
    """Reads one connection for one socket."""

    def __init__(
        self,
        socket: UpgradedSocket,
        wait_for_turn: Callable[[], Awaitable[None]],
        pause_reading: Callable[[], None],
        resume_reading: Callable[[], None],
    ) -> None:
        self._socket = socket
        self._wait_for_turn = wait_for_turn
        self._pause_reading, self._resume_reading = pause_reading, resume_reading
        self._received = bytearray()
        self._passing: asyncio.Task[None] | None = None
        self._is_ended = False

    def feed(self, data: bytes) -> None:
        """Pass on what the client has sent, soon."""
        self._received += data
        if self._passing is None:
            self._pause_reading()
            self._passing = asyncio.ensure_future(self._pass_on())

    def feed_eof(self) -> None:
        """The client is gone."""
        self._is_ended = True
        if self._passing is None:
            self._socket.feed_eof()

    def stop(self) -> None:
        """Nobody reads any more."""
        self._is_ended = True
        self._received.clear()

    async def _pass_on(self) -> None:
        while self._received:
            await self._wait_for_turn()
            part = bytes(self._received[:BYTES_PER_TURN])
            del self._received[:BYTES_PER_TURN]
            self._socket.feed(part)
        self._passing = None
        if self._is_ended:
            self._socket.feed_eof()
        else:
            self._resume_reading()
