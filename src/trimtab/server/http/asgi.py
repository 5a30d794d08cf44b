"""The HTTP edge: raw ASGI in, Kubernetes answers out; the one place in the server that catches everything."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

import orjson

from trimtab.errors import ApiFault, InternalError, TooLarge
from trimtab.server.http.dispatch import Handler
from trimtab.server.http.messages import Answer, Ask, Stream
from trimtab.server.http.metrics import Requests
from trimtab.server.http.negotiation import JSON, YAML, entries, wants_pretty
from trimtab.server.http.protobuf_responses import single
from trimtab.server.registry import api_errors
from trimtab.server.storage.uids import random_uid

log = logging.getLogger("trimtab.server")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BODY_LIMIT = 3 * 1024 * 1024
_SEND_SECONDS = 60.0
"""How long a client may leave its connection full before it is dropped."""
_GZIP_FROM = 128 * 1024
_FLOW = (
    (b"x-kubernetes-pf-flowschema-uid", b"1c1d3c5e-0f3a-4c58-9a55-7d0d3f4f5a01"),
    (b"x-kubernetes-pf-prioritylevel-uid", b"5b1f7c35-6b39-4b7a-8f6e-2f9d0a3c7e02"),
)
_NO_CACHE = (b"cache-control", b"no-cache, private")


class Edge:
    """An ASGI application for one API server."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._streams: set[asyncio.Task[None]] = set()
        self.requests = Requests()

    def end_streams(self) -> None:
        """Let every watcher go, as a server does that is about to stop."""
        for stream in self._streams:
            stream.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        ask = _ask(scope)
        began = time.perf_counter()
        try:
            ask.body = await _body(receive)
            answer = await self._handler.answer(ask)
        except ApiFault as fault:
            answer = fault_answer(fault, protobuf=ask.protobuf)
        except (asyncio.CancelledError, _Gone):
            raise
        except Exception:
            log.exception("unexpected failure", extra={"path": ask.path})
            answer = fault_answer(InternalError("Internal error occurred: the server failed; its log says how"))
        if isinstance(answer, Stream):
            self.requests.count(ask.method, 200, None)
            await self._stream(answer, ask, scope, receive, send)
        else:
            self.requests.count(ask.method, answer.code, time.perf_counter() - began)
            await _send(answer, ask, send)

    async def _stream(self, answer: Stream, ask: Ask, scope: Scope, receive: Receive, send: Send) -> None:
        """Send lines as they come until they end, the client leaves, or it stops reading."""
        await send({"type": "http.response.start", "status": 200, "headers": _common_headers(answer, ask)})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        sender = asyncio.ensure_future(_pump(answer, send, scope.get("is_congested", lambda: True)))
        listener = asyncio.ensure_future(_left(receive))
        self._streams.add(sender)
        try:
            await asyncio.wait({sender, listener}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(sender)
            stopping = sender.cancelled() and not listener.done()
            for task in (sender, listener):
                task.cancel()
            outcome: Iterable[Any] = await asyncio.gather(sender, listener, return_exceptions=True)
            for ended in outcome:
                if isinstance(ended, Exception) and not isinstance(ended, TimeoutError):
                    log.error("a watch failed", exc_info=ended)
        if stopping:
            await send({"type": "http.response.body", "body": b""})

    @property
    def watchers(self) -> int:
        return len(self._streams)


class _Gone(Exception):
    """The client has left."""


def _ask(scope: Scope) -> Ask:
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
    return Ask(
        method=scope["method"],
        path=path,
        query=query,
        headers=headers,
        groups=groups,
        certificate_user=scope.get("certificate_user"),
        server_address=_address(scope),
    )


def _address(scope: Scope) -> str:
    server = scope.get("server")
    return f"{server[0]}:{server[1]}" if server else ""


async def _body(receive: Receive) -> bytes:
    """The whole body, if it is not too long; whoever listens sees to it that it does not take forever."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        part = message.get("body", b"")
        size += len(part)
        if size > BODY_LIMIT:
            raise TooLarge(f"Request entity too large: limit is {BODY_LIMIT}")
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts) if len(parts) > 1 else part


def fault_answer(fault: ApiFault, *, protobuf: bool = False) -> Answer:
    status = api_errors.status_of(fault)
    answer = single(fault.code, status) if protobuf else Answer(fault.code, orjson.dumps(status))
    if fault.retry_after is not None and fault.retry_after <= 10:
        answer.headers.append((b"retry-after", str(fault.retry_after).encode()))
    if fault.code == 401:
        answer.headers.append((b"www-authenticate", b'Bearer realm="trimtab"'))
    return answer


def _common_headers(answer: Answer | Stream, ask: Ask) -> list[tuple[bytes, bytes]]:
    headers = [(b"audit-id", random_uid().encode()), *_FLOW, *answer.headers]
    if not any(name == b"cache-control" for name, _ in answer.headers):
        headers.append(_NO_CACHE)
    if answer.media:
        headers.append((b"content-type", answer.media.encode()))
    headers += [(b"warning", f'299 - "{_escaped(text)}"'.encode("utf-8", "replace")) for text in ask.caller.warnings]
    return headers


def _escaped(text: str) -> str:
    shown = "".join(char if char.isprintable() else " " for char in text)
    return shown.replace("\\", "\\\\").replace('"', '\\"')


def _dressed(answer: Answer, ask: Ask) -> bytes:
    """The body as this client wants to read it."""
    if answer.media != JSON or answer.verbatim:
        return answer.body
    if wants_yaml(ask):
        import yaml  # noqa: PLC0415 - only few answers are YAML

        answer.media = YAML
        dumper = yaml.CSafeDumper
        text: str = yaml.dump(orjson.loads(answer.body), Dumper=dumper, default_flow_style=False, allow_unicode=True)
        return text.encode()
    if wants_pretty(ask.query.get("pretty"), ask.headers.get("user-agent", "")):
        return orjson.dumps(orjson.loads(answer.body), option=orjson.OPT_INDENT_2)
    return answer.body + b"\n"


def wants_yaml(ask: Ask) -> bool:
    accept = ask.headers.get("accept", "")
    return YAML in accept and entries(accept)[0].media == YAML


async def _send(answer: Answer, ask: Ask, send: Send) -> None:
    body = b"" if answer.code in {204, 304} else _dressed(answer, ask)
    headers = _common_headers(answer, ask)
    if len(body) > _GZIP_FROM and "gzip" in ask.headers.get("accept-encoding", ""):
        import zlib  # noqa: PLC0415

        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        body = packer.compress(body) + packer.flush()
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    if answer.code not in {204, 304}:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if ask.method == "HEAD" else body})


async def _pump(answer: Stream, send: Send, is_congested: Callable[[], bool]) -> None:
    async for chunk in answer.lines:
        async with asyncio.timeout(_SEND_SECONDS if is_congested() else None):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
