"""The client side of SPDY/3.1: encodes the frames of a client, and decodes those of the server."""

import asyncio
import struct
import zlib
from collections.abc import Iterator

from trimtab.server.subresources.spdy import DICTIONARY, control_frame, data_frame


class SpdyClient:
    """A connection in memory; the server side is a `ByteSocket`."""

    def __init__(self) -> None:
        self._compress = zlib.compressobj(zdict=DICTIONARY)
        self._to_server: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.sent = bytearray()
        """What the server has sent."""

    async def receive(self) -> bytes | None:
        return await self._to_server.get()

    def send(self, payload: bytes) -> None:
        self.sent += payload

    def open(self, stream: int, *, fin: bool = False, **headers: str) -> None:
        pairs = [part for name, value in headers.items() for part in (name.encode(), value.encode())]
        block = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(one)) + one for one in pairs)
        packed = self._compress.compress(block) + self._compress.flush(zlib.Z_SYNC_FLUSH)
        self.feed(control_frame(1, struct.pack(">IIH", stream, 0, 0) + packed, 1 if fin else 0))

    def write(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        self.feed(data_frame(stream, data, 1 if fin else 0))

    def feed(self, data: bytes) -> None:
        for start in range(0, len(data), 7):  # frames arrive in parts
            self._to_server.put_nowait(data[start : start + 7])

    def disconnect(self) -> None:
        self._to_server.put_nowait(None)

    def frames(self) -> Iterator[tuple[int, int, bytes]]:
        """Control frames as (0, kind, body), data frames as (stream, flags, data)."""
        at = 0
        while at < len(self.sent):
            first, second = struct.unpack(">II", self.sent[at : at + 8])
            body = bytes(self.sent[at + 8 : at + 8 + (second & 0xFFFFFF)])
            at += 8 + len(body)
            yield (0, first & 0xFFFF, body) if first >> 31 else (first, second >> 24, body)

    def data(self, stream: int) -> bytes:
        return b"".join(data for number, _, data in self.frames() if number == stream)

    def is_closed(self, stream: int) -> bool:
        """Whether the server has closed its direction."""
        return any(number == stream and flags & 1 for number, flags, _ in self.frames())
