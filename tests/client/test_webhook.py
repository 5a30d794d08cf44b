"""Events reach a webhook in order, are retried, signed, and never sent where nobody wanted them."""

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from aiohttp import web

from collector import serving
from trimtab.client import delivery
from trimtab.client import webhook as module
from trimtab.client.webhook import SIGNATURE, Webhook, WebhookTarget, check_url
from trimtab.errors import InputError


@pytest.mark.parametrize(
    "url",
    ["http://example.com/x", "ftp://127.0.0.1", "https://", "https://user:pw@example.com/", "nonsense", "https://[::1"],
)
def test_addresses_that_are_not_secure_are_refused(url: str) -> None:
    with pytest.raises(InputError):
        check_url(url)


@pytest.mark.parametrize("url", ["https://example.com/x", "http://127.0.0.1:1/x", "http://localhost/", "http://[::1]/"])
def test_https_and_this_machine_are_accepted(url: str) -> None:
    assert check_url(url) == url


class Receiver:
    """Answers with the given codes, then with 204."""

    def __init__(self, *codes: int, headers: dict[str, str] | None = None) -> None:
        self.codes = list(codes)
        self.headers = headers or {}
        self.bodies: list[bytes] = []
        self.requests: list[web.Request] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self.requests.append(request)
        code = self.codes.pop(0) if self.codes else 204
        return web.Response(status=code, headers=self.headers)


def run(receiver: Receiver, act: Callable[[Webhook], Awaitable[None]], secret: bytes = b"") -> None:
    async def main() -> None:
        async with serving(receiver.handle) as address:
            hook = Webhook(WebhookTarget(f"{address}/events", secret), first_delay=0.01)
            hook.start()
            try:
                await act(hook)
            finally:
                await hook.close()

    asyncio.run(main())


async def settle(hook: Webhook, count: int) -> None:
    while sum(hook.counts.values()) < count:  # noqa: ASYNC110 - counts have no event
        await asyncio.sleep(0.01)


def test_events_arrive_in_order_and_signed() -> None:
    receiver = Receiver()

    async def act(hook: Webhook) -> None:
        for number in range(3):
            hook.send({"id": number})
        await settle(hook, 3)

    run(receiver, act, b"key")
    assert [msgspec.json.decode(body)["id"] for body in receiver.bodies] == [0, 1, 2]
    digest = hmac.new(b"key", receiver.bodies[0], hashlib.sha256).hexdigest()
    assert receiver.requests[0].headers[SIGNATURE] == f"sha256={digest}"
    assert receiver.requests[0].content_type == "application/cloudevents+json"


def test_failures_of_the_receiver_are_retried() -> None:
    receiver = Receiver(503, 429, 500)

    async def act(hook: Webhook) -> None:
        hook.send({"id": 1})
        await settle(hook, 1)
        assert hook.counts["sent"] == 1

    run(receiver, act)
    assert len(receiver.bodies) == 4


def test_refusals_are_not_retried_and_the_next_event_is_sent() -> None:
    receiver = Receiver(400)

    async def act(hook: Webhook) -> None:
        hook.send({"id": 1})
        hook.send({"id": 2})
        await settle(hook, 2)
        assert hook.counts == {"sent": 1, "failed": 1, "dropped": 0}

    run(receiver, act)


def test_redirects_are_not_followed() -> None:
    receiver = Receiver(307, headers={"Location": "/elsewhere"})

    async def act(hook: Webhook) -> None:
        hook.send({"id": 1})
        await settle(hook, 1)
        assert hook.counts["failed"] == 1

    run(receiver, act)
    assert [request.path for request in receiver.requests] == ["/events"]


def test_endless_failure_ends_after_some_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MAX_DELAY_SECONDS", 0.01)
    receiver = Receiver(*[500] * 50)

    async def act(hook: Webhook) -> None:
        hook.send({"id": 1})
        await settle(hook, 1)

    run(receiver, act)
    assert len(receiver.bodies) == delivery.MAX_ATTEMPTS


def test_queue_is_bounded_and_drops_the_oldest() -> None:
    async def main() -> None:
        hook = Webhook(WebhookTarget("https://example.com/"))
        for number in range(module.MAX_QUEUED + 7):
            hook.send({"id": number})
        assert hook.counts["dropped"] == 7

    asyncio.run(main())
