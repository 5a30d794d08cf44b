"""The ASGI application of an API server; the only place in the server that catches all exceptions."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

import orjson

from trimtab.errors import ApiError, BadRequest, InternalError, TooLarge
from trimtab.server import api_errors
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
_SEND_TIMEOUT_SECONDS = 60.0
"""Seconds that a watcher may stop reading before its connection is closed."""
_GZIP_MIN_BYTES = 128 * 1024
_MAX_YAML_BYTES_IN_LOOP = 32 * 1024
"""YAML takes 0.2 s of CPU per MB; a longer document is made in a thread, so that other requests go on."""
_FLOW_CONTROL_HEADERS = (
    (b"x-kubernetes-pf-flowschema-uid", b"1c1d3c5e-0f3a-4c58-9a55-7d0d3f4f5a01"),
    (b"x-kubernetes-pf-prioritylevel-uid", b"5b1f7c35-6b39-4b7a-8f6e-2f9d0a3c7e02"),
)
_NO_CACHE = (b"cache-control", b"no-cache, private")


class AsgiApplication:
    """The ASGI application of one API server."""

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self._streams: set[asyncio.Task[None]] = set()
        self.request_metrics = RequestMetrics()

    def end_streams(self) -> None:
        """End every watch before the server stops."""
        for stream in self._streams:
            stream.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = _parse_request(scope)
        started = time.perf_counter()
        try:
            request.body = await _read_body(receive)
            response = await self._handler.handle(request)
        except ApiError as error:
            response = error_response(error, protobuf=request.protobuf_errors)
        except RecursionError:
            response = error_response(BadRequest("the request nests too deeply"), protobuf=request.protobuf_errors)
        except _ClientDisconnected:
            return  # nobody is left to respond to
        except Exception:
            log.exception("request failed unexpectedly", extra={"path": request.path})
            response = error_response(
                InternalError("Internal error occurred: unexpected server failure; see the server log")
            )
        if isinstance(response, StreamingResponse):
            self.request_metrics.observe(request.method, 200, None)
            await self._send_stream(response, request, scope, receive, send)
        else:
            self.request_metrics.observe(request.method, response.code, time.perf_counter() - started)
            await _send_response(response, request, send)

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


async def _read_body(receive: Receive) -> bytes:
    """Read the whole body up to the size limit; the listener limits the time."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientDisconnected
        part = message.get("body", b"")
        size += len(part)
        if size > BODY_LIMIT:
            raise TooLarge(f"Request entity too large: limit is {BODY_LIMIT}")
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts) if len(parts) > 1 else part


def error_response(error: ApiError, *, protobuf: bool = False) -> Response:
    status = api_errors.status_of(error)
    response = protobuf_response(error.code, status) if protobuf else Response(error.code, orjson.dumps(status))
    if error.retry_after is not None and error.retry_after <= 10:
        response.headers.append((b"retry-after", str(error.retry_after).encode()))
    if error.code == 401:
        response.headers.append((b"www-authenticate", b'Bearer realm="trimtab"'))
    return response


def _common_headers(response: Response | StreamingResponse, request: Request) -> list[tuple[bytes, bytes]]:
    headers = [(b"audit-id", random_uid().encode()), *_FLOW_CONTROL_HEADERS, *response.headers]
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
    if response.code in {204, 304}:
        body = b""
    elif len(response.body) > _MAX_YAML_BYTES_IN_LOOP and wants_yaml(request):
        body = await asyncio.to_thread(_render_body, response, request)
    else:
        body = _render_body(response, request)
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
