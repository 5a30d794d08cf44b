"""Connections to one API server that carry request after request, with as little ado as HTTP allows."""

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
"""How often within those seconds it is looked who waits for too long."""
IDLE_SECONDS = 60.0
"""A line that was silent for longer may have been cut by somebody on the way, and is not used again."""
REPEATABLE = frozenset(("GET", "PUT", "DELETE"))
PORTS = {"https": 443, "http": 80}
HEEDED = frozenset((b"content-encoding", b"retry-after"))
GZIP = 31
"""What zlib calls a gzip stream."""
LARGEST_ANSWER = 512 << 20
"""Unpacked; a list of a hundred thousand objects stays well below, and no server may fill our memory."""


class Reply(NamedTuple):
    """What a server answered."""

    status: int
    body: bytes
    retry_after: str = ""


class Broken(ConnectionError):
    """A line ended before its answer; `silent` when not a byte of that had come."""

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
        """When it last took a request or fell silent; 0 while it has carried nothing yet."""

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
            self.close()  # half an answer may still be on its way
            raise
        finally:
            self.used = loop.time()

    def give_up(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(TimeoutError("the server does not answer"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # what the loop tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # the loop gives protocols of streams nothing else

    def data_received(self, data: bytes) -> None:
        self._begun = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as fault:
            self._fail(f"the server does not speak HTTP: {fault}")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc or "the server closed the connection"))

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Broken(why, silent=not self._begun))

    # what the parser tells us

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.done():
            self.close()  # what it says without being asked must not pass for the next answer

    def on_header(self, name: bytes, value: bytes) -> None:
        if (heeded := name.lower()) in HEEDED:
            self._headers[heeded] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > LARGEST_ANSWER:
            self._refuse()
        else:
            self._parts.append(body)

    def _refuse(self) -> None:
        self._parts.clear()
        self._fail(f"the answer is larger than {LARGEST_ANSWER >> 20} MiB")
        self.close()

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or self._answer is None or self._answer.done():
            return  # "go on", and no answer yet
        if not self._parser.should_keep_alive():
            self.close()
        body = b"".join(self._parts)
        if self._headers.get(b"content-encoding") == "gzip":
            unpacking = zlib.decompressobj(GZIP)
            body = unpacking.decompress(body, LARGEST_ANSWER)
            if unpacking.unconsumed_tail:
                self._refuse()
                return
        self._answer.set_result(Reply(status, body, self._headers.get(b"retry-after", "")))


class Lines:
    """At most so many lines to one server; whoever asks for another waits."""

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
        """One request and its answer; a connection that breaks is an OSError, one that hangs a TimeoutError."""
        told = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else "Accept-Encoding: gzip\r\n"
        head = f"{method} {self._prefix}{target} HTTP/1.1\r\n{self._common}{told}{length}\r\n"
        async with self._free:
            return await self._carried(method, head.encode("latin-1") + body)

    async def _carried(self, method: str, request: bytes) -> Reply:
        while True:
            line = self._rested() or await self._new()
            fresh = not line.used
            self._busy.add(line)
            if self._next_look is None:
                self._look_later()
            try:
                reply = await line.ask(request)
            except Broken as fault:
                # Cut while nobody used it: whoever may ask twice does so on a line of its own.
                if fresh or not fault.silent or method not in REPEATABLE:
                    raise
            else:
                if line.open:
                    self._idle.append(line)
                return reply
            finally:
                self._busy.discard(line)

    def _look_later(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(ANSWER_SECONDS / LOOKS_PER_ANSWER, self._look)

    def _look(self) -> None:
        """Give up who waits for too long: one alarm for all, for one of its own costs a request as much as reading its answer."""
        self._next_look = None
        latest = asyncio.get_running_loop().time() - ANSWER_SECONDS
        for line in self._busy:
            if line.used < latest:
                line.give_up()
        if self._busy:
            self._look_later()

    def _rested(self) -> Line | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            line = self._idle.pop()
            if line.open and now - line.used < IDLE_SECONDS:
                return line
            line.close()
        return None

    async def _new(self) -> Line:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, line = await asyncio.get_running_loop().create_connection(
                Line,
                self._host,
                self._port,
                ssl=self._trust,
                server_hostname=self._server_name if self._trust is not None else None,
            )
        return line

    def close(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        for line in (*self._idle, *self._busy):
            line.close()
        self._idle.clear()
