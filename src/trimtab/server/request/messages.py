"""Requests and responses as the server's modules exchange them, independent of ASGI."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec

from trimtab.server.auth.user import Caller, User
from trimtab.server.request import large_objects
from trimtab.server.request.negotiation import JSON
from trimtab.server.request.routes import RequestInfo


class Request(msgspec.Struct):
    """A parsed HTTP request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    impersonate_groups: list[str] = []
    """Every `Impersonate-Group` header."""
    impersonate_extra: list[tuple[str, str]] = []
    """Key and value of every `Impersonate-Extra-` header."""
    commands: list[str] = []
    """Every parameter `command`, the words of a command line."""
    without_body: bool = False
    """Whether this was a HEAD request, which is a GET whose response has no body."""
    body: bytes = b""
    protobuf_errors: bool = False
    """Whether an error is encoded as protobuf."""
    certificate_user: User | None = None
    server_address: str = ""
    flow_headers: tuple[tuple[bytes, bytes], ...] = ()
    """Response headers that name the flow schema and the priority level of the request."""
    target: RequestInfo | None = None
    """What the path names; set when the caller is identified."""
    caller: Caller = msgspec.field(default_factory=Caller)
    impersonator: User | None = None
    """Who sent the request, if the caller is impersonated."""


class Response(msgspec.Struct):
    """A complete response; a JSON body is compact and has no trailing newline yet."""

    code: int
    body: bytes
    media_type: str = JSON
    headers: list[tuple[bytes, bytes]] = []
    verbatim: bool = False
    """Send the body unchanged: no YAML, no indentation, no trailing newline."""


class PartedResponse(msgspec.Struct):
    """A large response whose body is made in parts while it is sent.

    Each part takes about a millisecond to make. An empty part sends nothing: the work goes on after others had a turn.
    """

    parts: Iterator[bytes]
    media_type: str = JSON
    headers: list[tuple[bytes, bytes]] = []
    verbatim: bool = False
    code: int = 200
    is_slow: bool = False
    """Whether a part may take long, so that each is made in a thread."""

    async def next_part(self) -> bytes | None:
        return await large_objects.run(self.is_slow, next, self.parts, None)

    async def join(self, pause: Callable[[], Awaitable[None]]) -> Response:
        """The response with its whole body."""
        made = []
        while (part := await self.next_part()) is not None:
            made.append(part)
            await pause()
        return Response(self.code, b"".join(made), self.media_type, self.headers, self.verbatim)


class StreamingResponse(msgspec.Struct):
    """A response whose body is sent in chunks until the watch ends."""

    chunks: AsyncIterator[bytes]
    media_type: str = JSON
    headers: list[tuple[bytes, bytes]] = []


class UpgradeResponse(msgspec.Struct):
    """A request that becomes a WebSocket or SPDY connection, on which the session then runs."""

    protocol: str
    run: Callable[[Any], Awaitable[None]]
    """Takes the connection; when it returns, the connection is closed."""
    is_spdy: bool = False
    """Whether the session takes the bytes of a SPDY connection, not the messages of a WebSocket."""


ForwardedResponse = Response | StreamingResponse | UpgradeResponse
"""What another server in this process answers; a session then runs on the connection of the first one."""
AnyResponse = PartedResponse | ForwardedResponse
