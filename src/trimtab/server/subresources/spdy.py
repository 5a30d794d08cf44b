"""SPDY/3.1 as clients of Kubernetes use it: streams over one connection, for `exec`, `attach` and `port-forward`.

The client opens every stream, with headers that say what it is for. Either side sends data on it and closes its own direction.
There is no flow control, as in the implementation that all these clients share.
"""

import struct
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from trimtab.server.request.part_queue import PartQueue, TooMuchUnread, UnreadBudget

SPDY = "SPDY/3.1"
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_VERSION, _FIN = 3, 1
_REFUSED = 3
MAX_FRAME_BYTES = 1024 * 1024
MAX_STREAMS = 1000
MAX_HEADER_BYTES = 4 * 1024
"""Of one stream; Kubernetes sends less than 200."""
_DICTIONARY_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_DICTIONARY_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _lengths_and_names() -> bytes:
    names = (name.replace("_", " ").encode() for name in _DICTIONARY_NAMES.split())
    return b"".join(struct.pack(">I", len(name)) + name for name in names)


DICTIONARY = _lengths_and_names() + _DICTIONARY_TEXT.encode()
"""The dictionary of compressed headers that the protocol defines."""


class ProtocolFault(Exception):
    """The client does not follow the protocol."""


class ByteSocket(Protocol):
    """A connection, or a WebSocket whose messages carry the bytes of one."""

    async def receive(self) -> bytes | None: ...

    def send(self, payload: bytes) -> None: ...


class SpdyStream:
    """One stream: data of the client in a queue, data to it at once."""

    def __init__(
        self,
        number: int,
        headers: Mapping[str, str],
        write: Callable[[bytes], None],
        budget: UnreadBudget | None = None,
    ) -> None:
        self.number, self.headers = number, headers
        self._write = write
        self._parts = PartQueue(budget)
        self._is_closed = self._is_ended = False

    def feed(self, data: bytes, *, is_last: bool) -> None:
        if self._is_ended:
            return
        if data:
            try:
                self._parts.put(data)
            except TooMuchUnread:
                raise ProtocolFault("the client sends faster than it is read") from None
        if is_last:
            self._is_ended = True
            self._parts.put_end()

    async def receive(self) -> bytes | None:
        """The next data; None when the client has closed its direction."""
        return None if self._is_ended and self._parts.is_empty() else await self._parts.get()

    def send(self, data: bytes) -> None:
        if self._is_closed:
            return
        parts = (data[start : start + MAX_FRAME_BYTES] for start in range(0, len(data), MAX_FRAME_BYTES))
        self._write(b"".join(data_frame(self.number, part) for part in parts))

    def close(self) -> None:
        """Close this direction."""
        if not self._is_closed:
            self._is_closed = True
            self._write(data_frame(self.number, b"", _FIN))

    def reset(self) -> None:
        """End both directions at once."""
        self._is_closed = True
        self._write(control_frame(_RST_STREAM, struct.pack(">II", self.number, _REFUSED)))


class SpdySession:
    """The server side of one connection."""

    def __init__(self, socket: ByteSocket, budget: UnreadBudget | None = None) -> None:
        self._socket = socket
        self._received = bytearray()
        self._headers = zlib.decompressobj(zdict=DICTIONARY)
        self._own_headers = zlib.compressobj(zdict=DICTIONARY)
        self._streams: dict[int, SpdyStream] = {}
        self._budget = budget or UnreadBudget()

    async def streams(self) -> AsyncIterator[SpdyStream]:
        """The streams that the client opens, until it ends the connection; data is passed on meanwhile."""
        try:
            while (data := await self._socket.receive()) is not None:
                self._received += data
                for stream in self._take_frames():
                    yield stream
        except ProtocolFault:
            self._socket.send(control_frame(_GOAWAY, struct.pack(">II", 0, 1)))
        finally:
            for stream in self._streams.values():
                stream.feed(b"", is_last=True)

    def _take_frames(self) -> list[SpdyStream]:
        """Handle the complete frames among the bytes received; returns the streams that they open."""
        opened = []
        buffer = self._received
        while len(buffer) >= 8:
            first, second = struct.unpack(">II", buffer[:8])
            size = second & 0xFFFFFF
            if size > MAX_FRAME_BYTES:
                raise ProtocolFault("a frame is too large")
            if len(buffer) < 8 + size:
                break
            body, flags = bytes(buffer[8 : 8 + size]), second >> 24
            del buffer[: 8 + size]
            if first >> 31:
                stream = self._take_control(first >> 16 & 0x7FFF, first & 0xFFFF, flags, body)
                opened += [stream] if stream is not None else []
            elif (target := self._streams.get(first)) is not None:
                target.feed(body, is_last=bool(flags & _FIN))
        return opened

    def _take_control(self, version: int, kind: int, flags: int, body: bytes) -> SpdyStream | None:
        if version != _VERSION:
            raise ProtocolFault(f"version {version} is not supported")
        if kind == _SYN_STREAM:
            return self._open(flags, body)
        if kind == _RST_STREAM and len(body) >= 4:
            stream = self._streams.pop(struct.unpack(">I", body[:4])[0] & 0x7FFFFFFF, None)
            if stream is not None:
                stream.feed(b"", is_last=True)
        elif kind == _PING:
            self._socket.send(control_frame(_PING, body))
        return None

    def _open(self, flags: int, body: bytes) -> SpdyStream:
        if len(body) < 10 or len(self._streams) >= MAX_STREAMS:
            raise ProtocolFault("a stream cannot be opened")
        number = struct.unpack(">I", body[:4])[0] & 0x7FFFFFFF
        if number in self._streams:
            raise ProtocolFault("the number of a stream is used already")
        stream = SpdyStream(number, self._read_headers(body[10:]), self._socket.send, self._budget)
        self._streams[number] = stream
        no_headers = self._own_headers.compress(struct.pack(">I", 0)) + self._own_headers.flush(zlib.Z_SYNC_FLUSH)
        self._socket.send(control_frame(_SYN_REPLY, struct.pack(">I", number) + no_headers))
        if flags & _FIN:
            stream.feed(b"", is_last=True)
        return stream

    def _read_headers(self, block: bytes) -> dict[str, str]:
        try:
            text = self._headers.decompress(block, MAX_HEADER_BYTES)
            return dict(_pairs(text))
        except (zlib.error, struct.error, UnicodeDecodeError) as fault:
            raise ProtocolFault(f"the headers of a stream cannot be read: {fault}") from None

    def forget(self, stream: SpdyStream) -> None:
        """The stream is not needed any more."""
        self._streams.pop(stream.number, None)


def _pairs(text: bytes) -> list[tuple[str, str]]:
    (count,) = struct.unpack(">I", text[:4])
    found, at = [], 4
    for _ in range(min(count, 100)):
        words = []
        for _ in range(2):
            (size,) = struct.unpack(">I", text[at : at + 4])
            words.append(text[at + 4 : at + 4 + size].decode())
            at += 4 + size
        found.append((words[0].lower(), words[1]))
    return found


def data_frame(stream: int, data: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", stream, flags << 24 | len(data)) + data


def control_frame(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8000 | _VERSION, kind, flags << 24 | len(body)) + body
