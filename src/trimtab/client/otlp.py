"""Sends spans to an OpenTelemetry collector: OTLP over HTTP, as JSON, in batches and never in the way of the sender.

A span that does not fit into the bounded queue is dropped and counted, and so is a batch that the collector does not accept after
a few attempts. The address is given by the operator. Spans name objects and say what happened to them; they never have contents
of objects.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import orjson

from trimtab import __version__
from trimtab.client.delivery import TIMEOUT, Delivery
from trimtab.errors import InputError
from trimtab.tasks import LoggedFailure, stop_tasks

log = logging.getLogger("trimtab.client.otlp")

MAX_QUEUED = 8192
MAX_BATCH = 512
BATCH_SECONDS = 1.0
MAX_ATTEMPTS = 4
CLOSE_SECONDS = 2.0
"""How long the last spans may take when the process ends."""
TRACES_PATH = "/v1/traces"
INTERNAL = 1
STATUS_ERROR = 2


class TraceTarget(NamedTuple):
    """Where spans go, and the share of traces that is sent."""

    url: str
    ratio: float = 1.0


class Span(NamedTuple):
    """One step of a trace; times are Unix times in nanoseconds."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    started: int
    ended: int
    attributes: Mapping[str, str]
    error: str = ""


def traces_url(endpoint: str) -> str:
    """The address for spans, as collectors serve it when the endpoint has no path; raises InputError."""
    try:
        parts = urlsplit(endpoint)
        _ = parts.port
    except ValueError as error:
        raise InputError(f"{endpoint!r} is not an address: {error}") from error
    if parts.username or parts.password:
        raise InputError("the address of a collector must not contain a user or password")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InputError(f"{endpoint!r}: give the address of a collector, such as http://127.0.0.1:4318")
    return endpoint if parts.path.strip("/") else endpoint.rstrip("/") + TRACES_PATH


def encode_spans(spans: Iterable[Span]) -> bytes:
    """The body of an export request."""
    resource = {
        "service.name": "trimtab",
        "service.version": __version__,
        "service.instance.id": socket.gethostname(),
    }
    scope = {"scope": {"name": "trimtab.reconciler"}, "spans": [_span_json(span) for span in spans]}
    return orjson.dumps(
        {"resourceSpans": [{"resource": {"attributes": _attributes_json(resource)}, "scopeSpans": [scope]}]}
    )


def _span_json(span: Span) -> dict[str, Any]:
    encoded: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": str(span.started),
        "endTimeUnixNano": str(span.ended),
        "attributes": _attributes_json(span.attributes),
    }
    if span.parent_id:
        encoded["parentSpanId"] = span.parent_id
    if span.error:
        encoded["status"] = {"code": STATUS_ERROR, "message": span.error}
    return encoded


def _attributes_json(attributes: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": name, "value": {"stringValue": value}} for name, value in attributes.items()]


class SpanExporter:
    """Collects spans and sends them in batches."""

    def __init__(self, endpoint: str, *, batch_seconds: float = BATCH_SECONDS, first_delay: float = 1.0) -> None:
        self._delivery = Delivery(traces_url(endpoint), first_delay, MAX_ATTEMPTS)
        self._batch_seconds = batch_seconds
        self._queue: deque[Span] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.counts = {"sent": 0, "failed": 0, "dropped": 0}

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="traces")

    async def close(self) -> None:
        """Stop, after one attempt to send what is queued."""
        if self._task is None:
            return
        await stop_tasks([self._task], log)
        timeout = aiohttp.ClientTimeout(total=CLOSE_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while self._queue and await self._send_batch(session, self._delivery._replace(max_attempts=1)):
                pass
        self.counts["dropped"] += len(self._queue)
        self._queue.clear()

    def export(self, span: Span) -> None:
        """Queue a span; it never waits."""
        if len(self._queue) >= MAX_QUEUED:
            self.counts["dropped"] += 1
            return
        self._queue.append(span)
        self._wake.set()

    async def _run(self) -> None:
        async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
            while True:
                await self._wake.wait()
                await asyncio.sleep(self._batch_seconds)
                self._wake.clear()
                while self._queue:
                    with LoggedFailure(log, "spans could not be sent"):
                        await self._send_batch(session, self._delivery)

    async def _send_batch(self, session: aiohttp.ClientSession, delivery: Delivery) -> bool:
        batch = [self._queue.popleft() for _ in range(min(MAX_BATCH, len(self._queue)))]
        problem = "the process ended"
        try:
            problem = await delivery.post(session, encode_spans(batch), {"Content-Type": "application/json"})
            if problem:
                log.warning("the collector did not accept %d spans: %s", len(batch), problem)
        finally:
            self.counts["failed" if problem else "sent"] += len(batch)
        return not problem
