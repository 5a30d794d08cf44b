"""The exchange of one request and its response with a connection: the body, the seat, and the pace of the client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from trimtab.api.limits import MAX_BODY_BYTES
from trimtab.errors import BadRequest, TooLarge
from trimtab.server.flowcontrol.controller import Admission

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI application."""

BODY_WITHOUT_SEAT = 64 * 1024
"""Up to this size a body is read before its request gets a seat, so that slow clients hold none."""
SEND_TIMEOUT_SECONDS = 60.0
"""Seconds that a client may stop reading before its connection is closed."""


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete."""


class UpgradedSocket(Protocol):
    """A connection that carries another protocol than HTTP."""

    def feed(self, data: bytes) -> None:
        """Take what the client has sent."""
        ...

    def feed_eof(self) -> None:
        """The client is gone."""
        ...

    async def receive(self) -> bytes | None: ...

    def send(self, payload: bytes) -> None: ...

    def close(self) -> None: ...

    async def wait_until_closed(self) -> None:
        """Return when nothing more can be sent or received."""
        ...


Framing = Callable[[Callable[[bytes], None], Callable[[], None]], UpgradedSocket]
"""Makes a socket of functions that write to the connection and close it."""


class Connection(Protocol):
    """What the application needs to know of the connection of a request; the listener provides it."""

    is_lost: bool
    owner: str | None
    """The user of the last request; None when it is exempt, empty before the first request."""

    def is_congested(self) -> bool:
        """Whether sending would wait for the client to read."""
        ...

    def delay_reading(self, seconds: float) -> None:
        """Read the next request only after this time."""
        ...

    async def wait_until_sent(self) -> None:
        """Wait until the client has read most of what was sent to it."""
        ...

    def join_writes(self) -> None:
        """Send the head of the response together with what is sent after it."""
        ...

    def abort(self) -> None: ...

    def upgrade(self, head: bytes, framing: Framing, wait_for_turn: Callable[[], Awaitable[None]]) -> UpgradedSocket:
        """Send this response and let the connection carry another protocol from then on.

        What the client sends is passed on in parts, each after `wait_for_turn`.
        """
        ...


class NoConnection:
    """For requests that do not come from a listener."""

    is_lost = False
    owner: str | None = None

    def is_congested(self) -> bool:
        return False

    def delay_reading(self, seconds: float) -> None:
        """There is nothing to read."""

    async def wait_until_sent(self) -> None:
        """Nothing waits for a client."""

    def join_writes(self) -> None:
        """Nothing is written."""

    def abort(self) -> None:
        """There is no connection."""

    def upgrade(self, head: bytes, framing: Framing, wait_for_turn: Callable[[], Awaitable[None]]) -> UpgradedSocket:
        raise BadRequest("the protocol of this connection cannot be changed")


NO_CONNECTION = NoConnection()


class Exchange:
    """The body and the seat of one request."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._parts: list[bytes] = []
        self._size = 0
        self.admission: Admission | None = None
        self.own_admission: Admission | None = None
        """The seat at the server itself, when the first one is shared with other servers."""

    def body(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    async def read_body(self, up_to: int = MAX_BODY_BYTES) -> bool:
        """Read until the body is complete or longer than `up_to`; the listener limits the time."""
        while self._size <= up_to:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            part = message.get("body", b"")
            self._size += len(part)
            if self._size > MAX_BODY_BYTES:
                raise TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")
            self._parts.append(part)
            if not message.get("more_body"):
                return True
        return False

    async def read_rest(self, connection: Connection) -> None:
        """Read the rest of a body that is too large to be kept while its request waits for a seat."""
        if connection.is_lost:
            raise ClientDisconnected
        self._wait_for_client()
        await self.read_body()

    async def wait_until_sent(self, connection: Connection) -> None:
        """Keep a slow client's place among the slow requests of its flow until the client has read its response."""
        self._wait_for_client()
        try:
            async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                await connection.wait_until_sent()
        except TimeoutError:
            connection.abort()

    def _wait_for_client(self) -> None:
        for admission in (self.admission, self.own_admission):
            if admission is not None:
                admission.wait_for_client()

    async def pause(self) -> None:
        """Let others have a turn before the work for this request goes on."""
        if self.admission is None:
            await asyncio.sleep(0)
        else:
            await self.admission.wait_for_turn()

    def in_turns(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Let the events for many watchers take turns."""
        return chunks if self.admission is None else self.admission.in_turns(chunks)

    def end(self) -> None:
        for admission in (self.admission, self.own_admission):
            if admission is not None:
                admission.end()
