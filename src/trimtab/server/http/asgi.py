"""The ASGI application of an API server; the only place in the server that catches all exceptions."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol
from urllib.parse import parse_qsl

import orjson

from trimtab.errors import ApiError, InternalError, TooLarge
from trimtab.server import api_errors
from trimtab.server.auth.authorize import Action
from trimtab.server.flowcontrol.controller import RETRY_SECONDS, Admission, FlowController, Rejected
from trimtab.server.http.dispatch import RequestHandler
from trimtab.server.http.metrics import RequestMetrics
from trimtab.server.request.messages import Request, Response, StreamingResponse
from trimtab.server.request.negotiation import JSON, YAML, parse_accept, wants_pretty
from trimtab.server.request.protobuf_responses import protobuf_response
from trimtab.server.storage.uids import random_uid

log = logging.getLogger("trimtab.server")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BODY_LIMIT = 3 * 1024 * 1024
_BODY_WITHOUT_SEAT = 64 * 1024
"""Up to this size a body is read before its request gets a seat, so that slow clients hold none."""
_SEND_TIMEOUT_SECONDS = 60.0
"""Seconds that a client may stop reading before its connection is closed."""
_GZIP_MIN_BYTES = 128 * 1024
_NO_CACHE = (b"cache-control", b"no-cache, private")


class AsgiApplication:
    """The ASGI application of one API server."""

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self._streams: set[asyncio.Task[None]] = set()
        self.request_metrics = RequestMetrics()
        self.flow_control: FlowController | None = None
        """Limits the requests of all callers; None in servers that only this process uses."""

    def end_streams(self) -> None:
        """End every watch before the server stops."""
        for stream in self._streams:
            stream.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = _parse_request(scope)
        connection: Connection = scope.get("connection", _NO_CONNECTION)
        started = time.perf_counter()
        exchange = _Exchange(receive)
        try:
            response = await self._respond(request, exchange, connection)
            if isinstance(response, StreamingResponse):
                response.chunks = exchange.paced(response.chunks)
                exchange.end()
                self.request_metrics.observe(request.method, 200, None)
                await self._send_stream(response, request, scope, receive, send)
            else:
                self.request_metrics.observe(request.method, response.code, time.perf_counter() - started)
                if request.method != "GET" and exchange.admission is not None:
                    await exchange.admission.wait_to_answer()
                await _send_response(response, request, send)
                if connection.is_congested():
                    await exchange.wait_until_sent(connection)
        except _ClientDisconnected:
            return
        finally:
            exchange.end()

    async def _respond(
        self, request: Request, exchange: "_Exchange", connection: "Connection"
    ) -> Response | StreamingResponse:
        """The response to a request, also to one that fails."""
        try:
            complete = await exchange.read_body(_BODY_WITHOUT_SEAT)
            action = await self._admit(request, exchange, connection)
            if not complete or connection.is_lost:
                await exchange.read_rest(connection)
            request.body = exchange.body()
            return await self._handler.answer(request, action)
        except ApiError as error:
            if isinstance(error, Rejected):
                request.flow_headers = error.headers
                connection.delay_reading(RETRY_SECONDS)
            return error_response(error, protobuf=request.protobuf_errors)
        except (asyncio.CancelledError, _ClientDisconnected):
            raise
        except Exception:
            log.exception("request failed unexpectedly", extra={"path": request.path})
            return error_response(
                InternalError("Internal error occurred: unexpected server failure; see the server log")
            )

    async def _admit(self, request: Request, exchange: "_Exchange", connection: "Connection") -> Action:
        """Identify the caller and wait for a seat; returns what the request wants to do."""
        flows = self.flow_control
        if flows is None:
            return self._handler.identify(request)
        try:
            action = self._handler.identify(request)
        except ApiError:
            await flows.pace()
            raise
        user = request.caller.user
        flow = flows.classify(user, action)
        if flows.is_exempt(flow):
            connection.owner = None
            admission = flows.admit_exempt(flow)
        else:
            connection.owner = user.name
            admission = await flows.admit(flow, self._handler.estimate_seats(request, action))
        exchange.admission = admission
        request.flow_headers = admission.headers
        return action

    async def _send_stream(
        self, streaming_response: StreamingResponse, request: Request, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send chunks until the stream ends, the client disconnects or stops reading."""
        await send(
            {"type": "http.response.start", "status": 200, "headers": _common_headers(streaming_response, request)}
        )
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        sender = asyncio.ensure_future(_send_chunks(streaming_response, send, scope.get("is_congested", lambda: True)))
        disconnect_listener = asyncio.ensure_future(_wait_for_disconnect(receive))
        self._streams.add(sender)
        try:
            await asyncio.wait({sender, disconnect_listener}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(sender)
            stopping = sender.cancelled() and not disconnect_listener.done()
            for task in (sender, disconnect_listener):
                task.cancel()
            results: Iterable[Any] = await asyncio.gather(sender, disconnect_listener, return_exceptions=True)
            for result in results:
                if isinstance(result, Exception) and not isinstance(result, TimeoutError):
                    log.error("watch failed", exc_info=result)
        if stopping:
            await send({"type": "http.response.body", "body": b""})

    @property
    def watcher_count(self) -> int:
        return len(self._streams)


class _ClientDisconnected(Exception):
    """The client disconnected before its request was complete."""


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

    def abort(self) -> None: ...


class _NoConnection:
    """For requests that do not come from a listener."""

    is_lost = False
    owner: str | None = None

    def is_congested(self) -> bool:
        return False

    def delay_reading(self, seconds: float) -> None:
        """There is nothing to read."""

    async def wait_until_sent(self) -> None:
        """Nothing waits for a client."""

    def abort(self) -> None:
        """There is no connection."""


_NO_CONNECTION = _NoConnection()


class _Exchange:
    """The body and the seat of one request."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._parts: list[bytes] = []
        self._size = 0
        self.admission: Admission | None = None

    def body(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    async def read_body(self, up_to: int = BODY_LIMIT) -> bool:
        """Read until the body is complete or longer than `up_to`; the listener limits the time."""
        while self._size <= up_to:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _ClientDisconnected
            part = message.get("body", b"")
            self._size += len(part)
            if self._size > BODY_LIMIT:
                raise TooLarge(f"Request entity too large: limit is {BODY_LIMIT}")
            self._parts.append(part)
            if not message.get("more_body"):
                return True
        return False

    async def read_rest(self, connection: Connection) -> None:
        """Read the rest of a body that is too large to be kept while its request waits for a seat."""
        if connection.is_lost:
            raise _ClientDisconnected
        if self.admission is not None:
            self.admission.wait_for_client()
        await self.read_body()

    async def wait_until_sent(self, connection: Connection) -> None:
        """Keep a slow client's place among the slow requests of its flow until the client has read its response."""
        if self.admission is not None:
            self.admission.wait_for_client()
        try:
            async with asyncio.timeout(_SEND_TIMEOUT_SECONDS):
                await connection.wait_until_sent()
        except TimeoutError:
            connection.abort()

    def paced(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Let the events for many watchers take turns."""
        return chunks if self.admission is None else self.admission.paced(chunks)

    def end(self) -> None:
        if self.admission is not None:
            self.admission.end()


def _parse_request(scope: Scope) -> Request:
    headers: dict[str, str] = {}
    groups: list[str] = []
    for name, value in scope["headers"]:
        key = name.decode("latin-1")
        if key == "impersonate-group":
            groups.append(value.decode("latin-1"))
        elif key == "accept" and key in headers:
            headers[key] += "," + value.decode("latin-1")
        else:
            headers[key] = value.decode("latin-1")
    raw = scope["query_string"]
    query = dict(reversed(parse_qsl(raw.decode("latin-1"), keep_blank_values=True))) if raw else {}
    path = scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1") or scope["path"]
    return Request(
        method=scope["method"],
        path=path,
        query=query,
        headers=headers,
        impersonate_groups=groups,
        certificate_user=scope.get("certificate_user"),
        server_address=_server_address(scope),
    )


def _server_address(scope: Scope) -> str:
    server = scope.get("server")
    return f"{server[0]}:{server[1]}" if server else ""


def error_response(error: ApiError, *, protobuf: bool = False) -> Response:
    status = api_errors.status_of(error)
    response = protobuf_response(error.code, status) if protobuf else Response(error.code, orjson.dumps(status))
    if error.retry_after is not None and error.retry_after <= 10:
        response.headers.append((b"retry-after", str(error.retry_after).encode()))
    if error.code == 401:
        response.headers.append((b"www-authenticate", b'Bearer realm="trimtab"'))
    return response


def _common_headers(response: Response | StreamingResponse, request: Request) -> list[tuple[bytes, bytes]]:
    headers = [(b"audit-id", random_uid().encode()), *request.flow_headers, *response.headers]
    if not any(name == b"cache-control" for name, _ in response.headers):
        headers.append(_NO_CACHE)
    if response.media_type:
        headers.append((b"content-type", response.media_type.encode()))
    headers += [
        (b"warning", f'299 - "{_escape_header_text(text)}"'.encode("utf-8", "replace"))
        for text in request.caller.warnings
    ]
    return headers


def _escape_header_text(text: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')


def _render_body(response: Response, request: Request) -> bytes:
    """The body as YAML, indented JSON or compact JSON, as the client requests."""
    if response.media_type != JSON or response.verbatim:
        return response.body
    if wants_yaml(request):
        import yaml  # noqa: PLC0415 - few responses are YAML

        response.media_type = YAML
        dumper = yaml.CSafeDumper
        text: str = yaml.dump(orjson.loads(response.body), Dumper=dumper, default_flow_style=False, allow_unicode=True)
        return text.encode()
    if wants_pretty(request.query.get("pretty"), request.headers.get("user-agent", "")):
        return orjson.dumps(orjson.loads(response.body), option=orjson.OPT_INDENT_2)
    return response.body + b"\n"


def wants_yaml(request: Request) -> bool:
    accept = request.headers.get("accept", "")
    return YAML in accept and parse_accept(accept)[0].media_type == YAML


async def _send_response(response: Response, request: Request, send: Send) -> None:
    body = b"" if response.code in {204, 304} else _render_body(response, request)
    headers = _common_headers(response, request)
    if len(body) > _GZIP_MIN_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        import zlib  # noqa: PLC0415

        compressor = zlib.compressobj(1, zlib.DEFLATED, 31)
        body = compressor.compress(body) + compressor.flush()
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    if response.code not in {204, 304}:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": response.code, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})


async def _send_chunks(response: StreamingResponse, send: Send, is_congested: Callable[[], bool]) -> None:
    async for chunk in response.chunks:
        async with asyncio.timeout(_SEND_TIMEOUT_SECONDS if is_congested() else None):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
