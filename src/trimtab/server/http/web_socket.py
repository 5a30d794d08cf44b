"""The server side of a WebSocket connection (RFC 6455): the handshake, frames in both directions, and the end."""

import asyncio
import base64
import hashlib
import struct
from collections.abc import Callable, Iterator

from trimtab.server.request.part_queue import PartQueue, TooMuchUnread

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
MAX_MESSAGE_BYTES = 1024 * 1024
NORMAL_CLOSURE = 1000


def handshake(key: str, protocol: str) -> bytes:
    """The response that turns a request into a WebSocket connection."""
    accepted = base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()  # noqa: S324 - the RFC demands it
    lines = ("HTTP/1.1 101 Switching Protocols", "upgrade: websocket", "connection: Upgrade")
    return "\r\n".join(
        [*lines, f"sec-websocket-accept: {accepted}", f"sec-websocket-protocol: {protocol}", "", ""]
    ).encode()


def encode_frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", 0x80 | opcode, size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x80 | opcode, 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 127, size)
    return head + payload


class FrameReader:
    """Splits what a client sends into frames; a client masks every frame."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bool, int, bytes]]:
        """Each complete frame: whether it is the last of its message, opcode, payload; ValueError for what is not allowed."""
        self._received += data
        while (frame := self._next_frame()) is not None:
            yield frame

    def _next_frame(self) -> tuple[bool, int, bytes] | None:
        buffer = self._received
        if len(buffer) < 2:
            return None
        size, at = buffer[1] & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(buffer) < at + width:
                return None
            size, at = int.from_bytes(buffer[at : at + width], "big"), at + width
        if size > MAX_MESSAGE_BYTES or not buffer[1] & 0x80:
            raise ValueError("the frame is too large or not masked")
        if len(buffer) < at + 4 + size:
            return None
        mask, body = buffer[at : at + 4], buffer[at + 4 : at + 4 + size]
        key = (mask * (size // 4 + 1))[:size]
        payload = (int.from_bytes(body, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
        is_last, opcode = bool(buffer[0] & 0x80), buffer[0] & 0x0F
        del buffer[: at + 4 + size]
        return is_last, opcode, payload


class WebSocket:
    """One connection: messages of the client in a queue, messages to it at once."""

    def __init__(self, write: Callable[[bytes], None], close: Callable[[], None]) -> None:
        self._write, self._close = write, close
        self._reader = FrameReader()
        self._message = bytearray()
        self._messages = PartQueue()
        self._is_closed = False
        self._closed = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Take what the client has sent."""
        try:
            for is_last, opcode, payload in self._reader.feed(data):
                self._take(is_last, opcode, payload)
        except (ValueError, TooMuchUnread):
            self.close(1009)

    def _take(self, is_last: bool, opcode: int, payload: bytes) -> None:
        if opcode in (_TEXT, _BINARY, _CONTINUATION):
            self._message += payload
            if len(self._message) > MAX_MESSAGE_BYTES:
                raise ValueError("the message is too large")
            if is_last:
                self._messages.put(bytes(self._message))
                self._message.clear()
        elif opcode == _PING:
            self._write(encode_frame(_PONG, payload))
        elif opcode == _CLOSE:
            self.close()

    def feed_eof(self) -> None:
        """The client is gone."""
        self._is_closed = True
        self._messages.put_end()
        self._closed.set()

    async def receive(self) -> bytes | None:
        """The next message; None when there will be no more."""
        return None if self._is_closed and self._messages.is_empty() else await self._messages.get()

    def send(self, payload: bytes) -> None:
        if not self._is_closed:
            self._write(encode_frame(_BINARY, payload))

    def close(self, code: int = NORMAL_CLOSURE) -> None:
        if not self._is_closed:
            self._write(encode_frame(_CLOSE, struct.pack(">H", code)))
            self.feed_eof()
            self._close()

    async def wait_until_closed(self) -> None:
        await self._closed.wait()
