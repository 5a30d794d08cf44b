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
    if len(body) > _GZIP_MIN_BYTES and _accepts_gzip(request):
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
        for part in parts:
            await _send_part(part, exchange, connection, send)
    await send({"type": "http.response.body", "body": body})


async def _send_parted(
    response: PartedResponse, request: Request, exchange: Exchange, connection: Connection, send: Send
) -> None:
    headers = common_headers(response, request)
    made: list[bytes] = []
    compressor = None
    if _accepts_gzip(request) and not request.without_body:
        made = await _first_parts(response, exchange, connection, send)
        if sum(map(len, made)) <= _GZIP_MIN_BYTES:
            whole = Response(response.code, b"".join(made), response.media_type, response.headers, response.verbatim)
            await send_response(whole, "", request, exchange, connection, send)
            return
        compressor = _new_compressor()
        headers += _GZIP_HEADERS
    await send({"type": "http.response.start", "status": response.code, "headers": headers})
    tail = b"" if response.verbatim or request.without_body else b"\n"
    if not request.without_body:
        part = b"".join(made) or await response.next_part()
        while part is not None:
            compressed = part if compressor is None else await _compress(compressor, part)
            await _send_part(compressed, exchange, connection, send)
            part = await response.next_part()
        if compressor is not None:
            tail = compressor.compress(tail) + compressor.flush()
    await send({"type": "http.response.body", "body": tail})


async def _first_parts(response: PartedResponse, exchange: Exchange, connection: Connection, send: Send) -> list[bytes]:
    """Enough parts to know whether the body is large enough to be compressed; all of a smaller one."""
    made: list[bytes] = []
    while sum(map(len, made)) <= _GZIP_MIN_BYTES and (part := await response.next_part()) is not None:
        made.append(part)
        await _send_part(b"", exchange, connection, send)
    return made


async def _send_part(part: bytes, exchange: Exchange, connection: Connection, send: Send) -> None:
    """Send a part, then let others have a turn, or wait for a client that reads slowly."""
    if connection.is_lost:
        raise ClientDisconnected
    if part:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    if connection.is_congested():
        await exchange.wait_until_sent(connection)
    await exchange.pause()
