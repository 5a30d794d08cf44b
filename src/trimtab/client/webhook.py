"""Sends events to a webhook: in order, with retries, and without ever delaying the sender.

The address is given by the operator. What is sent there is not secret but internal, so the connection must be HTTPS, except to
this machine. The queue is bounded: when the receiver is down for long, the oldest events are dropped and counted, and memory
does not grow. `client/delivery.py` sends them.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import logging
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
import msgspec

from trimtab.client.delivery import FIRST_DELAY_SECONDS, TIMEOUT, Delivery
from trimtab.errors import InputError
from trimtab.tasks import LoggedFailure, stop_tasks

log = logging.getLogger("trimtab.client.webhook")

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
SIGNATURE = "X-Trimtab-Signature-256"
MAX_QUEUED = 1000


class WebhookTarget(NamedTuple):
    """Where events go; with a secret they are signed."""

    url: str
    secret: bytes = b""


def check_url(url: str) -> str:
    """The address, if events may be sent there; raises InputError."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        raise InputError(f"{url!r} is not an address: {error}") from error
    if parts.username or parts.password:
        raise InputError("the address of a webhook must not contain a user or password; use a secret to sign events")
    if parts.scheme == "https" and host:
        return url
    if parts.scheme == "http" and is_loopback(host):
        return url
    raise InputError(f"{url!r}: a webhook must have an https address (http only on this machine)")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Webhook:
    """Sends queued events one after the other; `close` stops at once and drops the rest."""

    def __init__(self, target: WebhookTarget, *, first_delay: float = FIRST_DELAY_SECONDS) -> None:
        self._target = WebhookTarget(check_url(target.url), target.secret)
        self._delivery = Delivery(self._target.url, first_delay)
        self._queue: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.counts = {"sent": 0, "failed": 0, "dropped": 0}

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="webhook")

    async def close(self) -> None:
        if self._task is not None:
            await stop_tasks([self._task], log)

    def send(self, event: Mapping[str, object]) -> None:
        """Queue an event; it never waits."""
        if len(self._queue) >= MAX_QUEUED:
            self._queue.popleft()
            self.counts["dropped"] += 1
        self._queue.append(msgspec.json.encode(event))
        self._wake.set()

    async def _run(self) -> None:
        async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._queue:
                    body = self._queue.popleft()
                    with LoggedFailure(log, "an event could not be sent"):
                        delivered = await self._deliver(session, body)
                        self.counts["sent" if delivered else "failed"] += 1

    async def _deliver(self, session: aiohttp.ClientSession, body: bytes) -> bool:
        problem = await self._delivery.post(session, body, self._headers(body))
        if problem:
            log.warning("an event was not accepted by the webhook: %s", problem)
        return not problem

    def _headers(self, body: bytes) -> dict[str, str]:
        headers = {"Content-Type": CONTENT_TYPE}
        if self._target.secret:
            headers[SIGNATURE] = f"sha256={hmac.new(self._target.secret, body, hashlib.sha256).hexdigest()}"
        return headers
