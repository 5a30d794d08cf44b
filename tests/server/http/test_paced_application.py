"""Requests of another application of the process: turns, rejection, sizes, and streams that hold nothing."""

import asyncio
from collections import Counter
from typing import Any

from trimtab.clock import run_virtually
from trimtab.server.auth.authenticate import ANONYMOUS_USER
from trimtab.server.auth.authorize import Action
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.server.flowcontrol.controller import FlowController
from trimtab.server.http.paced_application import PacedApplication

ANN = User("ann", (AUTHENTICATED,))
ACTION = Action("get", path="/console/")


def scope(**headers: str) -> dict[str, Any]:
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": "GET", "path": "/console/", "query_string": b"", "headers": lines}


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"form"}


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers with the body of the request."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


class Sent(list[Any]):
    async def __call__(self, message: Any) -> None:
        self.append(message)


def test_one_request_starts_per_turn_of_the_loop_however_many_connections_send() -> None:
    async def scenario() -> int:
        served = Counter[str]()
        paced = PacedApplication(answer, FlowController(), lambda _: ANONYMOUS_USER)

        async def send_forever() -> None:
            while True:
                await paced(scope(), receive, Sent())
                served["requests"] += 1
                await asyncio.sleep(0)

        tasks = [asyncio.ensure_future(send_forever()) for _ in range(500)]
        for _ in range(400):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return served["requests"]

    assert 300 < run_virtually(scenario()) <= 401


def test_application_gets_the_body_and_the_user_is_found_by_the_headers() -> None:
    async def scenario() -> Sent:
        flows, sent, users = FlowController(), Sent(), []

        def user_of(headers: Any) -> User:
            users.append(headers)
            return ANN

        await PacedApplication(answer, flows, user_of)(scope(cookie="a=b"), receive, sent)
        assert users == [{b"cookie": b"a=b"}]
        return sent

    assert [message.get("body") for message in run_virtually(scenario())] == [None, b"form"]


def test_request_that_waits_too_long_is_rejected_with_retry_after() -> None:
    async def scenario() -> Sent:
        flows, sent = FlowController(), Sent()
        blocked = asyncio.Event()

        async def block(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await blocked.wait()

        paced = PacedApplication(block, flows, lambda _: ANN)
        flows.queues.levels["global-default"].queue_of(flows.classify(ANN, ACTION)).slow = 1000
        await paced(scope(), receive, sent)
        return sent

    start = run_virtually(scenario())[0]
    assert start["status"] == 429
    assert (b"retry-after", b"1") in start["headers"]


def test_headers_of_more_than_64_kib_are_refused_before_the_application_sees_them() -> None:
    async def scenario() -> Sent:
        sent = Sent()
        await PacedApplication(answer, FlowController(), lambda _: ANN)(scope(cookie="x" * 70_000), receive, sent)
        return sent

    assert run_virtually(scenario())[0]["status"] == 431


def test_stream_of_events_does_not_count_as_a_running_request() -> None:
    async def scenario() -> tuple[int, int]:
        flows, started, ended = FlowController(), asyncio.Event(), asyncio.Event()

        async def stream(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"1", "more_body": True})
            started.set()
            await ended.wait()

        task = asyncio.ensure_future(PacedApplication(stream, flows, lambda _: ANN)(scope(), receive, Sent()))
        await started.wait()
        running = sum(level.executing for level in flows.queues.levels.values())
        ended.set()
        await task
        return running, sum(level.executing for level in flows.queues.levels.values())

    assert run_virtually(scenario()) == (0, 0)
