"""Sends a response in the form that the client requests, a large one in parts that take turns with other requests."""

import asyncio
import zlib
from typing import Any

import orjson

from trimtab.api.json_bounds import has_more_values
from trimtab.api.limits import MAX_YAML_BYTES_IN_LOOP, MAX_YAML_VALUES_IN_LOOP
from trimtab.server.http.exchange import ClientDisconnected, Connection, Exchange, Send
from trimtab.server.request.body_worker import json_to_yaml
from trimtab.server.request.messages import PartedResponse, Request, Response, StreamingResponse
from trimtab.server.request.negotiation import JSON, YAML, parse_accept, wants_pretty
from trimtab.server.request.parts import PART_BYTES, split_bytes
from trimtab.server.storage.uids import random_uid

TO_YAML, TO_INDENTED_JSON = "to-yaml", "to-indented-json"
_GZIP_MIN_BYTES = 128 * 1024
_COMPRESSED_BYTES = PART_BYTES
"""Compressed parts are sent when they have so many bytes together; fewer are sent with the head, in one go."""
_LONE_BYTES = 4 * PART_BYTES
"""What a response makes or compresses before others have a turn, if no other one is sent in parts: in under a millisecond."""
_sent_in_parts: set[Exchange] = set()
"""The exchanges whose responses are sent in parts at the moment, of all servers of the process."""
_NO_CACHE = (b"cache-control", b"no-cache, private")
_GZIP_HEADERS = [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]


def common_headers(
    response: Response | PartedResponse | StreamingResponse, request: Request
) -> list[tuple[bytes, bytes]]:
    headers = [(b"audit-id", random_uid().encode()), *request.flow_headers, *response.headers]
    if not response.headers or not any(name == b"cache-control" for name, _ in response.headers):
        headers.append(_NO_CACHE)
    if response.media_type:
        headers.append((b"content-type", response.media_type.encode()))
    if request.caller.warnings:
        headers += [
            (b"warning", f'299 - "{_escape_header_text(text)}"'.encode("utf-8", "replace"))
            for text in request.caller.warnings
        ]
    return headers


def _escape_header_text(text: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')


def conversion_task(response: Response | PartedResponse, request: Request) -> str:
    """The conversion that the client requests of a JSON response: to YAML, to indented JSON or none."""
    if response.media_type != JSON or response.verbatim:
        return ""
    if _wants_yaml(request):
        return TO_YAML
    is_pretty = wants_pretty(request.query.get("pretty"), request.headers.get("user-agent", ""))
    return TO_INDENTED_JSON if is_pretty else ""


def is_large(body: bytes) -> bool:
    """Whether converting the body would take longer than a request may use the event loop."""
    return len(body) > MAX_YAML_BYTES_IN_LOOP or has_more_values(body, MAX_YAML_VALUES_IN_LOOP)


def _wants_yaml(request: Request) -> bool:
    accept = request.headers.get("accept", "")
    return YAML in accept and parse_accept(accept)[0].media_type == YAML


def _render_body(response: Response, task: str) -> bytes:
    """The body of a small response as YAML, indented JSON or compact JSON, as the client requests."""
    if task == TO_YAML:
        response.media_type = YAML
        return json_to_yaml(response.body)
    if task:
        return orjson.dumps(orjson.loads(response.body), option=orjson.OPT_INDENT_2)
    return response.body if response.verbatim or response.media_type != JSON else response.body + b"\n"


def _accepts_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def _is_encoded(response: Response) -> bool:
    """Whether the body is compressed already, as documents are that are kept so."""
    return any(name == b"content-encoding" for name, _ in response.headers)


def _new_compressor() -> Any:
    return zlib.compressobj(1, zlib.DEFLATED, 31)


async def _compress(compressor: Any, data: bytes) -> bytes:
    """Compress a part here, which takes about a millisecond; a larger one in a thread, as zlib does not hold Python's lock."""
    if len(data) <= 2 * PART_BYTES:
        return bytes(compressor.compress(data))
    return bytes(await asyncio.to_thread(compressor.compress, data))


async def send_response(
    response: Response | PartedResponse,
    task: str,
    request: Request,
    exchange: Exchange,
    connection: Connection,
    send: Send,
) -> None:
    """Send a response, whose body is converted before (`conversion_task`) unless it has been."""
    if isinstance(response, PartedResponse):
        await _send_parted(response, request, exchange, connection, send)
        return
    body = b"" if response.code in {204, 304} else _render_body(response, "" if response.verbatim else task)
    headers = common_headers(response, request)
    if len(body) > _GZIP_MIN_BYTES and _accepts_gzip(request) and not _is_encoded(response):
        compressor = _new_compressor()
        body = await _compress(compressor, body) + compressor.flush()
        headers += _GZIP_HEADERS
    if response.code not in {204, 304}:
        headers.append((b"content-length", str(len(body)).encode()))
    if request.without_body:
        body = b""
    else:
        connection.join_writes()
    await send({"type": "http.response.start", "status": response.code, "headers": headers})
    if len(body) > PART_BYTES:
        *parts, body = split_bytes(body)
        sender = _PartSender(exchange, connection, send)
        for part in parts:
            await sender.send(part)
            await sender.pause_after(part)
    await send({"type": "http.response.body", "body": body})


async def _send_parted(
    response: PartedResponse, request: Request, exchange: Exchange, connection: Connection, send: Send
) -> None:
    _sent_in_parts.add(exchange)
    try:
        sender = _PartSender(exchange, connection, send)
        headers = common_headers(response, request)
        if request.without_body:
            await send({"type": "http.response.start", "status": response.code, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        elif _accepts_gzip(request):
            await _send_compressed(response, headers, request, sender)
        else:
            await send({"type": "http.response.start", "status": response.code, "headers": headers})
            while (part := await response.next_part()) is not None:
                await sender.send(part)
                await sender.pause_after(part)
            await send({"type": "http.response.body", "body": b"" if response.verbatim else b"\n"})
    finally:
        _sent_in_parts.discard(exchange)


async def _send_compressed(
    response: PartedResponse, headers: list[tuple[bytes, bytes]], request: Request, sender: "_PartSender"
) -> None:
    """Send a response in compressed parts, unless its whole body turns out to be small."""
    made: list[bytes] = []
    size = 0
    while size <= _GZIP_MIN_BYTES and (part := await response.next_part()) is not None:
        made.append(part)
        size += len(part)
        await sender.pause_after(part)
    if size <= _GZIP_MIN_BYTES:
        whole = Response(response.code, b"".join(made), response.media_type, response.headers, response.verbatim)
        await send_response(whole, "", request, sender.exchange, sender.connection, sender.send_message)
        return
    headers += _GZIP_HEADERS
    head = {"type": "http.response.start", "status": response.code, "headers": headers}
    compressor, compressed, has_begun = _new_compressor(), b"", False
    made.reverse()
    while (part := made.pop() if made else await response.next_part()) is not None:
        compressed += compressor.compress(part)
        if len(compressed) >= _COMPRESSED_BYTES:
            if not has_begun:
                await sender.send_message(head)
                has_begun = True
            await sender.send(compressed)
            compressed = b""
        await sender.pause_after(part)
    compressed += compressor.compress(b"" if response.verbatim else b"\n") + compressor.flush()
    if not has_begun:
        headers.append((b"content-length", str(len(compressed)).encode()))
        sender.connection.join_writes()
        await sender.send_message(head)
    await sender.send_message({"type": "http.response.body", "body": compressed})


class _PartSender:
    """Sends the parts of one response, and lets others have turns between them."""

    def __init__(self, exchange: Exchange, connection: Connection, send: Send) -> None:
        self.exchange, self.connection, self.send_message = exchange, connection, send
        self._in_turn = 0
        """Bytes made since others had a turn."""

    async def send(self, part: bytes) -> None:
        """Send a part, and wait for a client that reads slowly."""
        if self.connection.is_lost:
            raise ClientDisconnected
        if part:
            await self.send_message({"type": "http.response.body", "body": part, "more_body": True})
        if self.connection.is_congested():
            await self.exchange.wait_until_sent(self.connection)

    async def pause_after(self, part: bytes) -> None:
        """Let others have a turn, unless this response is the only one in parts and took little time since the last turn."""
        self._in_turn += len(part)
        # a part that ended early took long to make
        if len(part) < PART_BYTES or self._in_turn >= _LONE_BYTES or len(_sent_in_parts) > 1:
            self._in_turn = 0
            await self.exchange.pause()
