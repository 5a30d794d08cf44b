"""The channels of `exec` and `attach` (input, output, errors, result) over a WebSocket or over SPDY streams."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol

import orjson

from trimtab.errors import BadRequest
from trimtab.server.request.messages import Request, UpgradeResponse
from trimtab.server.request.routes import is_true
from trimtab.server.subresources.spdy import SPDY, ByteSocket, SpdySession, SpdyStream

STDIN, STDOUT, STDERR, RESULT, RESIZE = range(5)
_CLOSE = 255
_WEB_SOCKET_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io")
_WITHOUT_RESULT = "channel.k8s.io"
"""The first protocol: the result is the text of a failure; success sends nothing."""
_LOG_PROTOCOLS = ("binary.k8s.io", "base64.binary.k8s.io")
_SPDY_PROTOCOL = "v4.channel.k8s.io"
_STREAM_TYPES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": RESULT, "resize": RESIZE}
_OPENING_SECONDS = 30.0
"""How long a client may take to open its streams."""


class Channels(Protocol):
    """The numbered channels of one session."""

    async def receive_input(self) -> bytes | None:
        """The next part of the input; None at its end."""
        ...

    def send(self, channel: int, payload: bytes) -> None: ...


Session = Callable[[Channels], Awaitable[None]]


def stream_response(request: Request, session: Session) -> UpgradeResponse:
    """Run a session over the connection, in the way that the client asks for; `BadRequest` if it asks for none."""
    if is_spdy(request):
        if _SPDY_PROTOCOL not in offered_protocols(request, "x-stream-protocol-version"):
            raise BadRequest(f"the client must offer the protocol {_SPDY_PROTOCOL}")
        wanted = [name for name in ("stdin", "stdout", "stderr") if is_true(request.query.get(name, ""))]
        has_terminal = is_true(request.query.get("tty", ""))
        streams = {"error", *(one for one in wanted if one != "stderr" or not has_terminal)}
        if has_terminal:
            streams.add("resize")
        return UpgradeResponse(_SPDY_PROTOCOL, lambda socket: _run_over_spdy(socket, streams, session), is_spdy=True)
    if request.headers.get("upgrade", "").lower() != "websocket":
        raise BadRequest("the connection must be upgraded to a WebSocket or to SPDY/3.1")
    offered = offered_protocols(request, "sec-websocket-protocol")
    protocol = next((one for one in _WEB_SOCKET_PROTOCOLS if one in offered), "")
    if not protocol:
        raise BadRequest(f"the client must offer one of the protocols {', '.join(_WEB_SOCKET_PROTOCOLS)}")
    has_result = protocol != _WITHOUT_RESULT
    return UpgradeResponse(protocol, lambda socket: session(WebSocketChannels(socket, has_result=has_result)))


def log_response(request: Request, chunks: AsyncIterator[bytes]) -> UpgradeResponse:
    """A log as the messages of a WebSocket."""
    offered = offered_protocols(request, "sec-websocket-protocol")
    protocol = next((one for one in _LOG_PROTOCOLS if one in offered), "")
    if not protocol:
        raise BadRequest(f"the client must offer one of the protocols {', '.join(_LOG_PROTOCOLS)}")

    async def run(socket: ByteSocket) -> None:
        async for chunk in chunks:
            socket.send(base64.b64encode(chunk) if protocol.startswith("base64.") else chunk)

    return UpgradeResponse(protocol, run)


def is_spdy(request: Request) -> bool:
    return request.headers.get("upgrade", "").lower() == SPDY.lower()


def offered_protocols(request: Request, header: str) -> list[str]:
    return [one.strip() for one in request.headers.get(header, "").split(",")]


class WebSocketChannels:
    """Channels as the first byte of each message."""

    def __init__(self, socket: ByteSocket, *, has_result: bool = True) -> None:
        self._socket = socket
        self._has_result = has_result

    async def receive_input(self) -> bytes | None:
        while (message := await self._socket.receive()) is not None:
            if message[:1] == bytes((_CLOSE,)):
                return None
            if message[:1] == bytes((STDIN,)) and len(message) > 1:
                return message[1:]
        return None

    def send(self, channel: int, payload: bytes) -> None:
        if channel == RESULT and not self._has_result:
            status = orjson.loads(payload)
            if status["status"] == "Success":
                return
            payload = str(status["message"]).encode()
        self._socket.send(bytes((channel,)) + payload)


class SpdyChannels:
    """Each channel is a stream."""

    def __init__(self, streams: Mapping[str, SpdyStream]) -> None:
        self._streams = {_STREAM_TYPES[name]: stream for name, stream in streams.items()}

    async def receive_input(self) -> bytes | None:
        stream = self._streams.get(STDIN)
        return await stream.receive() if stream is not None else None

    def send(self, channel: int, payload: bytes) -> None:
        if (stream := self._streams.get(channel)) is not None:
            stream.send(payload)

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()


async def _run_over_spdy(socket: ByteSocket, wanted: set[str], session: Session) -> None:
    opened: dict[str, SpdyStream] = {}
    complete = asyncio.Event()

    async def accept() -> None:
        async for stream in SpdySession(socket).streams():
            name = stream.headers.get("streamtype", "")
            if name not in _STREAM_TYPES:
                stream.reset()
                continue
            opened[name] = stream
            if wanted <= opened.keys():
                complete.set()

    accepting = asyncio.ensure_future(accept())
    running: asyncio.Future[None] | None = None
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPENING_SECONDS):
                await complete.wait()
            channels = SpdyChannels(opened)
            running = asyncio.ensure_future(session(channels))
            await asyncio.wait({running, accepting}, return_when=asyncio.FIRST_COMPLETED)  # the client may disconnect
            if running.done():
                running.result()
            channels.close()
    finally:
        for task in (accepting, running):
            if task is not None:
                task.cancel()
