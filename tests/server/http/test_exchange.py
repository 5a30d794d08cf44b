"""Requests take seats; clients that send or read slowly hold none."""

import asyncio
from typing import Any

import orjson

from server.asgi import AsgiClient, with_asgi_client
from server.http.test_asgi import CONFIG_MAPS, scope_of
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.server.flowcontrol.controller import FlowController
from trimtab.server.http import exchange
from trimtab.server.http.asgi import AsgiApplication

ANN = User("ann", (AUTHENTICATED,))


class SlowClient:
    """A client that sends its body in parts, and stops reading when it is congested."""

    def __init__(self, *parts: bytes, congested: bool = False) -> None:
        self._parts = list(parts)
        self.is_lost, self.owner = False, ""
        self._congested = congested
        self.delayed = 0.0
        self.aborted = False
        self.read = asyncio.Event()
        self.sent: list[dict[str, Any]] = []
        self.next_part = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if len(self.sent) == 0 and self._parts:
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        await self.next_part.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def is_congested(self) -> bool:
        return self._congested

    def join_writes(self) -> None:
        """Every message is recorded by itself."""

    def delay_reading(self, seconds: float) -> None:
        self.delayed = seconds

    async def wait_until_sent(self) -> None:
        await self.read.wait()

    def abort(self) -> None:
        self.aborted = True

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    def call(self, client: AsgiClient, path: str, method: str = "GET", user: User = ANN) -> asyncio.Task[None]:
        scope = {**scope_of(path), "method": method, "certificate_user": user, "connection": self}
        return asyncio.ensure_future(client.server.app(scope, self.receive, self.send))


def flows_of(client: AsgiClient) -> FlowController:
    flows = FlowController()
    client.server.app = AsgiApplication(client.server.handler, flows)
    return flows


def test_request_without_a_seat_gets_429_and_its_connection_waits() -> None:
    async def scenario(client: AsgiClient) -> None:
        flows = flows_of(client)
        level = flows.queues.levels["global-default"]
        level.limits = level.limits._replace(total_queue_length=0, borrowing_percent=0)
        level.nominal_seats = 0
        rejected = SlowClient(b"")
        await rejected.call(client, "/version")
        assert rejected.status == 429
        headers = dict(rejected.sent[0]["headers"])
        assert headers[b"retry-after"] == b"1"
        assert headers[b"x-kubernetes-pf-flowschema-uid"] == b""
        body = orjson.loads(rejected.sent[1]["body"])
        assert (body["kind"], body["reason"]) == ("Status", "TooManyRequests")
        assert rejected.delayed == 1
        assert (await client("GET", "/version")).status == 200  # an administrator is exempt

    with_asgi_client(scenario)


def test_watch_takes_a_seat_only_while_it_starts() -> None:
    async def scenario(client: AsgiClient) -> None:
        flows = flows_of(client)
        client.server.authorizer.allows = lambda *_: True  # type: ignore[method-assign]
        watching = asyncio.ensure_future(client("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=20", user=ANN))
        await asyncio.sleep(1)
        assert client.server.app.watcher_count == 1
        assert flows.queues.levels["global-default"].seats_in_use == 0
        await watching

    with_asgi_client(scenario)


def test_client_that_does_not_read_its_response_holds_no_seat_and_is_disconnected() -> None:
    async def scenario(client: AsgiClient) -> None:
        level = flows_of(client).queues.levels["global-default"]
        slow = SlowClient(b"", congested=True)
        answering = slow.call(client, "/version")
        await asyncio.sleep(1)
        assert level.seats_in_use == 0
        assert [queue.slow for queue in level.flows.values()] == [1]
        await asyncio.wait_for(answering, 120)
        assert slow.aborted
        assert level.flows == {}

    with_asgi_client(scenario)


def test_large_body_is_read_after_its_turn_and_holds_no_seat() -> None:
    async def scenario(client: AsgiClient) -> None:
        level = flows_of(client).queues.levels["global-default"]
        first = b"x" * (exchange.BODY_WITHOUT_SEAT + 1)
        slow = SlowClient(first, b"", b"")
        slow._parts = [first]  # announces more, which never comes

        async def receive() -> dict[str, Any]:
            if slow._parts:
                return {"type": "http.request", "body": slow._parts.pop(0), "more_body": True}
            await slow.next_part.wait()
            return {"type": "http.disconnect"}

        slow.receive = receive  # type: ignore[method-assign]
        uploading = slow.call(client, CONFIG_MAPS, "POST")
        await asyncio.sleep(1)
        assert level.seats_in_use == 0
        assert [queue.slow for queue in level.flows.values()] == [1]
        slow.next_part.set()
        await uploading
        assert level.flows == {}

    with_asgi_client(scenario)


def test_request_whose_client_has_gone_is_not_handled() -> None:
    async def scenario(client: AsgiClient) -> None:
        flows_of(client)
        gone = SlowClient(b"")
        gone.is_lost = True
        await gone.call(client, "/version")
        assert gone.sent == []

    with_asgi_client(scenario)


def test_unauthenticated_requests_take_turns() -> None:
    async def scenario(client: AsgiClient) -> None:
        flows_of(client)
        turns, answered = 0, 0

        async def call() -> None:
            nonlocal answered
            assert (await client("GET", "/version", user=None, authorization="Bearer x")).status == 401
            answered += 1

        calls = [asyncio.ensure_future(call()) for _ in range(100)]
        while answered < 100:
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 100 / 8
        await asyncio.gather(*calls)

    with_asgi_client(scenario)
