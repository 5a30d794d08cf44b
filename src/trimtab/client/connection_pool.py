"""HTTP/1.1 keep-alive connections to one API server."""

import asyncio
import ssl
import zlib
from collections import deque
from typing import NamedTuple
from urllib.parse import urlsplit

import httptools

CONNECT_SECONDS = 10.0
RESPONSE_SECONDS = 60.0
CHECKS_PER_TIMEOUT = 12
"""How often within this time the waiting requests are checked."""
IDLE_SECONDS = 60.0
"""A connection that was idle for longer may have been cut by a middlebox, and is closed."""
IDEMPOTENT_METHODS = frozenset(("GET", "PUT", "DELETE"))
PORTS = {"https": 443, "http": 80}
USED_HEADERS = frozenset((b"content-encoding", b"etag", b"retry-after"))
GZIP_WINDOW_BITS = 31
"""The window bits with which zlib reads a gzip stream."""
MAX_RESPONSE_BYTES = 512 << 20
"""Decompressed; a list of a hundred thousand objects stays well below, and no server can exhaust our memory."""
MAX_PLAIN_BYTES = 8 << 20
"""Of documents that are no objects: health, version, lists of kinds. What answers may be no API server at all."""


class Reply(NamedTuple):
    """The response of a server."""

    status: int
    body: bytes
    retry_after: str = ""
    etag: str = ""


class ConnectionBroken(ConnectionError):
    """A connection ended before its response; `unanswered` when no byte of it had arrived."""

    def __init__(self, reason: str, *, unanswered: bool) -> None:
        super().__init__(reason)
        self.unanswered = unanswered


class PooledConnection(asyncio.Protocol):
    """One connection: one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[Reply] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, str] = {}
        self._parts: list[bytes] = []
        self._size = 0
        self._limit = 0
        self._response_started = False
        self.last_used = 0.0
        """When it last started or ended a request; 0 for a new connection."""
        self.generation = 0
        """A pool sends no further request on connections of an earlier generation than its own."""

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def send(self, request: bytes, limit: int) -> Reply:
        """Send a request whose response has at most `limit` bytes."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionBroken("the connection is closed", unanswered=True)
        loop = asyncio.get_running_loop()
        self._response = loop.create_future()
        self._headers, self._parts, self._size, self._response_started = {}, [], 0, False
        self._limit = limit
        self.last_used = loop.time()
        self._transport.write(request)
        try:
            return await self._response
        except BaseException:
            self.close()  # the rest of the response may still arrive
            raise
        finally:
            self.last_used = loop.time()

    def time_out(self) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(TimeoutError("the server did not respond in time"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # stream protocols always get a Transport

    def data_received(self, data: bytes) -> None:
        self._response_started = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"the response is not valid HTTP: {error}")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc or "the server closed the connection"))

    def _fail(self, reason: str) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(ConnectionBroken(reason, unanswered=not self._response_started))

    # callbacks of the parser

    def on_message_begin(self) -> None:
        if self._response is None or self._response.done():
            self.close()  # an unsolicited response must not be taken for the next one

    def on_header(self, name: bytes, value: bytes) -> None:
        if (header := name.lower()) in USED_HEADERS:
            self._headers[header] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > self._limit:
            self._fail_too_large()
        else:
            self._parts.append(body)

    def _fail_too_large(self) -> None:
        self._parts.clear()
        self._fail(f"the response is larger than {self._limit >> 20} MiB")
        self.close()

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or self._response is None or self._response.done():
            return  # an informational response such as 100 Continue
        if not self._parser.should_keep_alive():
            self.close()
        body = b"".join(self._parts)
        if body and self._headers.get(b"content-encoding") == "gzip":
            decompressor = zlib.decompressobj(GZIP_WINDOW_BITS)
            body = decompressor.decompress(body, self._limit)
            if decompressor.unconsumed_tail:
                self._fail_too_large()
                return
            if not decompressor.eof:
                self._fail("the response is not a complete gzip stream")
                self.close()
                return
        headers = self._headers
        self._response.set_result(Reply(status, body, headers.get(b"retry-after", ""), headers.get(b"etag", "")))


class ConnectionPool:
    """A limited number of connections to one server; further requests wait."""

    def __init__(
        self, server: str, *, ssl_context: ssl.SSLContext | None, server_name: str = "", max_connections: int = 64
    ) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or PORTS[parts.scheme]
        self._prefix = parts.path.rstrip("/")
        self._ssl_context = ssl_context
        self._server_name = server_name or self._host
        self._idle: deque[PooledConnection] = deque()
        self._busy: set[PooledConnection] = set()
        self._generation = 0
        self._slots = asyncio.Semaphore(max_connections)
        self._host_header = f"Host: {parts.netloc.rpartition('@')[2]}\r\n"
        self._next_check: asyncio.TimerHandle | None = None

    async def request(
        self, method: str, target: str, headers: dict[str, str], body: bytes = b"", *, limit: int | None = None
    ) -> Reply:
        """Send one request and return its response; a broken connection is an OSError, a slow one a TimeoutError."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else "Accept-Encoding: gzip\r\n"
        head = f"{method} {self._prefix}{target} HTTP/1.1\r\n{self._host_header}{lines}{length}\r\n"
        async with self._slots:
            return await self._send(method, head.encode("latin-1") + body, limit or MAX_RESPONSE_BYTES)

    async def _send(self, method: str, request: bytes, limit: int) -> Reply:
        while True:
            connection = self._take_idle() or await self._connect()
            is_new = not connection.last_used
            self._busy.add(connection)
            self._schedule_check()
            try:
                reply = await connection.send(request, limit)
            except ConnectionBroken as error:
                # It was closed while idle: an idempotent request is repeated on another connection.
                if is_new or not error.unanswered or method not in IDEMPOTENT_METHODS:
                    raise
            else:
                if connection.generation != self._generation:
                    connection.close()
                elif connection.is_open:
                    self._idle.append(connection)
                return reply
            finally:
                self._busy.discard(connection)

    def _schedule_check(self) -> None:
        if self._next_check is None:
            self._next_check = asyncio.get_running_loop().call_later(
                RESPONSE_SECONDS / CHECKS_PER_TIMEOUT, self._check_connections
            )

    def _check_connections(self) -> None:
        """Time out slow requests, and close connections that were idle for long.

        One timer serves all: a timer per request costs as much as reading its response.
        """
        self._next_check = None
        now = asyncio.get_running_loop().time()
        for connection in self._busy:
            if connection.last_used < now - RESPONSE_SECONDS:
                connection.time_out()
        while self._idle and now - self._idle[0].last_used >= IDLE_SECONDS:
            self._idle.popleft().close()
        if self._busy or self._idle:
            self._schedule_check()

    def _take_idle(self) -> PooledConnection | None:
        """The connection that was used last, so that those beyond what is needed become old and are closed."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and now - connection.last_used < IDLE_SECONDS:
                return connection
            connection.close()
        return None

    async def _connect(self) -> PooledConnection:
        generation = self._generation
        async with asyncio.timeout(CONNECT_SECONDS):
            _, connection = await asyncio.get_running_loop().create_connection(
                PooledConnection,
                self._host,
                self._port,
                ssl=self._ssl_context,
                server_hostname=self._server_name if self._ssl_context is not None else None,
            )
        connection.generation = generation
        return connection

    def retire_connections(self) -> None:
        """Send no further request on the connections that are open now; requests in progress end normally."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        self._generation += 1

    def close(self) -> None:
        if self._next_check is not None:
            self._next_check.cancel()
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()
