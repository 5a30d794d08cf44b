"""HTTP/1.1 keep-alive connections to one API server."""

import asyncio
import ssl
import zlib
from collections import deque
from typing import NamedTuple
from urllib.parse import urlsplit

import httptools

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
LOOKS_PER_ANSWER = 12
"""How often within this time the waiting requests are checked."""
IDLE_SECONDS = 60.0
"""A connection that was idle for longer may have been cut by a middlebox, and is not reused."""
REPEATABLE = frozenset(("GET", "PUT", "DELETE"))
PORTS = {"https": 443, "http": 80}
HEEDED = frozenset((b"content-encoding", b"retry-after"))
GZIP = 31
"""The window bits with which zlib reads a gzip stream."""
LARGEST_ANSWER = 512 << 20
"""Decompressed; a list of a hundred thousand objects stays well below, and no server can exhaust our memory."""


class Reply(NamedTuple):
    """The response of a server."""

    status: int
    body: bytes
    retry_after: str = ""


class Broken(ConnectionError):
    """A connection ended before its response; `unanswered` when no byte of it had arrived."""

    def __init__(self, why: str, *, silent: bool) -> None:
        super().__init__(why)
        self.silent = silent


class Line(asyncio.Protocol):
    """One connection: one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Reply] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, str] = {}
        self._parts: list[bytes] = []
        self._size = 0
        self._begun = False
        self.used = 0.0
        """When it last started or ended a request; 0 for a new connection."""

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Reply:
        if self._transport is None or self._transport.is_closing():
            raise Broken("the connection is closed", silent=True)
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        self._headers, self._parts, self._size, self._begun = {}, [], 0, False
        self.used = loop.time()
        self._transport.write(request)
        try:
            return await self._answer
        except BaseException:
            self.close()  # the rest of the response may still arrive
            raise
        finally:
            self.used = loop.time()

    def give_up(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(TimeoutError("the server did not respond in time"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # stream protocols always get a Transport

    def data_received(self, data: bytes) -> None:
        self._begun = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"the response is not valid HTTP: {error}")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc or "the server closed the connection"))

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Broken(why, silent=not self._begun))

    # callbacks of the parser

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.done():
            self.close()  # an unsolicited response must not be taken for the next one

    def on_header(self, name: bytes, value: bytes) -> None:
        if (header := name.lower()) in HEEDED:
            self._headers[header] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > LARGEST_ANSWER:
            self._refuse()
        else:
            self._parts.append(body)

    def _refuse(self) -> None:
        self._parts.clear()
        self._fail(f"the response is larger than {LARGEST_ANSWER >> 20} MiB")
        self.close()

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or self._answer is None or self._answer.done():
            return  # an informational response such as 100 Continue
        if not self._parser.should_keep_alive():
            self.close()
        body = b"".join(self._parts)
        if self._headers.get(b"content-encoding") == "gzip":
            decompressor = zlib.decompressobj(GZIP)
            body = decompressor.decompress(body, LARGEST_ANSWER)
            if decompressor.unconsumed_tail:
                self._refuse()
                return
        self._answer.set_result(Reply(status, body, self._headers.get(b"retry-after", "")))


class Lines:
    """A limited number of connections to one server; further requests wait."""

    def __init__(self, server: str, *, trust: ssl.SSLContext | None, server_name: str = "", at_once: int = 64) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or PORTS[parts.scheme]
        self._prefix = parts.path.rstrip("/")
        self._trust = trust
        self._server_name = server_name or self._host
        self._idle: deque[Line] = deque()
        self._busy: set[Line] = set()
        self._free = asyncio.Semaphore(at_once)
        self._common = f"Host: {parts.netloc.rpartition('@')[2]}\r\n"
        self._next_look: asyncio.TimerHandle | None = None

    async def ask(self, method: str, target: str, headers: dict[str, str], body: bytes = b"") -> Reply:
        """Send one request and return its response; a broken connection is an OSError, a slow one a TimeoutError."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else "Accept-Encoding: gzip\r\n"
        head = f"{method} {self._prefix}{target} HTTP/1.1\r\n{self._common}{lines}{length}\r\n"
        async with self._free:
            return await self._carried(method, head.encode("latin-1") + body)

    async def _carried(self, method: str, request: bytes) -> Reply:
        while True:
            connection = self._rested() or await self._new()
            is_new = not connection.used
            self._busy.add(connection)
            if self._next_look is None:
                self._look_later()
            try:
                reply = await connection.ask(request)
            except Broken as error:
                # It was closed while idle: an idempotent request is repeated on another connection.
                if is_new or not error.silent or method not in REPEATABLE:
                    raise
            else:
                if connection.open:
                    self._idle.append(connection)
                return reply
            finally:
                self._busy.discard(connection)

    def _look_later(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(ANSWER_SECONDS / LOOKS_PER_ANSWER, self._look)

    def _look(self) -> None:
        """Time out slow requests. One timer serves all: a timer per request costs as much as reading its response."""
        self._next_look = None
        deadline = asyncio.get_running_loop().time() - ANSWER_SECONDS
        for connection in self._busy:
            if connection.used < deadline:
                connection.give_up()
        if self._busy:
            self._look_later()

    def _rested(self) -> Line | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.open and now - connection.used < IDLE_SECONDS:
                return connection
            connection.close()
        return None

    async def _new(self) -> Line:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, connection = await asyncio.get_running_loop().create_connection(
                Line,
                self._host,
                self._port,
                ssl=self._trust,
                server_hostname=self._server_name if self._trust is not None else None,
            )
        return connection

    def close(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()
