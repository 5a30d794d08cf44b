"""The event stream: one message per page and round, only for what changed, and nothing after the session has ended."""

import asyncio
from datetime import timedelta
from typing import Any

import orjson
import pytest

from console.fake_console import (
    fill,
    may_do_all,
    new_console,
    put_workload,
    reads_only_shop,
    rebalance_job,
    signed_in,
)
from trimtab.api.kinds.rebalancer import RebalancerSpec
from trimtab.console import permissions, stream
from trimtab.console.application import Console
from trimtab.console.messages import ConsoleRequest
from trimtab.console.sessions import COOKIE


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "ROUND_SECONDS", 0.02)
    monkeypatch.setattr(stream, "KEEP_ALIVE_SECONDS", 0.05)


async def open_stream(console: Console, path: str, user: str = "admin", revision: str | None = None) -> Any:
    cookie, session = signed_in(console, user)
    query = {"page": f"/console{path}", "rev": revision if revision is not None else console.hub.revision}
    response = await console.pages.follow(
        ConsoleRequest("GET", ("events",), query, {"cookie": f"{COOKIE}={cookie}"}), session
    )
    assert response.chunks is not None
    assert (await anext(response.chunks)).startswith(b"retry:")
    return response.chunks, session


async def next_patch(chunks: Any) -> dict[str, Any]:
    """The next message that is not a comment."""
    while True:
        chunk = await anext(chunks)
        if chunk.startswith(b"event: patch"):
            return orjson.loads(chunk.partition(b"data: ")[2])
        assert chunk == stream.KEEP_ALIVE, chunk


def change(console: Console, namespace: str, replicas: int) -> None:
    key = f"{namespace}/Deployment/web"
    old = console.model.bindings[key]
    status = old.status.but(holds=old.status.holds[:0]) if replicas else old.status
    console.model.put_binding(old.but(spec=old.spec.but(replicas=replicas), status=status), old)


def test_change_reaches_an_open_page_in_one_message() -> None:
    async def main() -> None:
        console = new_console()
        fill(console)
        chunks, _ = await open_stream(console, "/workloads")
        for replicas in (4, 5, 6):
            change(console, "shop", replicas)
        message = await next_patch(chunks)
        rows = next(patch for patch in message["patches"] if patch.get("rows") == "workload-rows")
        assert set(rows["html"]) == {"w-shop/Deployment/web", "g-shop"}, "only what changed is sent"
        assert "order" not in rows
        assert message["revision"] == console.hub.revision
        await chunks.aclose()
        assert console.hub.stream_count == 0

    asyncio.run(main())


def test_thousand_changes_are_one_message() -> None:
    async def main() -> None:
        console = new_console()
        fill(console)
        chunks, _ = await open_stream(console, "/workloads")
        for number in range(1000):
            change(console, "shop", 4 + number % 7)
        message = await next_patch(chunks)
        assert message["revision"] == console.hub.revision, "the message is about the latest state"
        assert await anext(chunks) == stream.KEEP_ALIVE, "nothing else follows"
        await chunks.aclose()

    asyncio.run(main())


def test_page_of_another_process_gets_everything_again() -> None:
    async def main() -> None:
        console = new_console()
        fill(console)
        chunks, _ = await open_stream(console, "/workloads", revision="0ld-99")
        message = await next_patch(chunks)
        rows = next(patch for patch in message["patches"] if patch.get("rows") == "workload-rows")
        assert rows["order"] == ["g-hidden", "w-hidden/Deployment/web", "g-shop", "w-shop/Deployment/web"]
        assert {"pulse", "lead"} <= {patch.get("id") for patch in message["patches"]}
        await chunks.aclose()

    asyncio.run(main())


def test_stream_has_only_what_the_user_may_see() -> None:
    async def main() -> None:
        console = new_console()
        fill(console)
        chunks, _ = await open_stream(console, "/workloads", "viewer")
        change(console, "hidden", 7)
        change(console, "shop", 8)
        message = orjson.dumps(await next_patch(chunks))
        assert b"w-shop" in message
        assert b"hidden/Deployment" not in message
        await chunks.aclose()

    asyncio.run(main())


def test_pages_that_share_a_message_share_no_form_token() -> None:
    async def main() -> None:
        console = new_console()
        fill(console)
        first, one = await open_stream(console, "/rebalance/web")
        second, two = await open_stream(console, "/rebalance/web")
        job = rebalance_job("web").but(spec=RebalancerSpec(suspend=True))
        console.model.put_rebalance("web", job)
        for chunks in (first, second):
            message = orjson.dumps(await next_patch(chunks)).decode()
            assert "Resume" in message
            assert one.csrf not in message
            assert two.csrf not in message
            await chunks.aclose()

    asyncio.run(main())


def test_user_who_loses_rights_gets_nothing_more_from_those_who_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(permissions, "RECHECK", timedelta(0))

    async def main() -> None:
        console = new_console()
        rights = console._authority._rights
        rights["second"] = may_do_all
        fill(console)
        keeps, _ = await open_stream(console, "/workloads")
        loses, _ = await open_stream(console, "/workloads", "second")
        rights["second"] = reads_only_shop
        change(console, "hidden", 7)
        assert b"hidden/Deployment" in orjson.dumps(await next_patch(keeps))
        rest = [chunk async for chunk in loses]
        assert rest == [stream.RELOAD]
        assert console.hub.stream_count == 1
        await keeps.aclose()

    asyncio.run(main())


def test_pages_go_on_when_the_first_of_them_signs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "RECHECK", timedelta(0))

    async def main() -> None:
        console = new_console()
        rights = console._authority._rights
        rights["second"] = may_do_all
        fill(console)
        first, session = await open_stream(console, "/workloads")
        second, _ = await open_stream(console, "/workloads", "second")
        console.sessions.close(session)
        del rights["admin"]
        assert [chunk async for chunk in first][-1] == stream.SIGNED_OUT
        change(console, "shop", 8)
        assert b"w-shop" in orjson.dumps(await next_patch(second))
        await second.aclose()

    asyncio.run(main())


def test_slow_page_is_loaded_again_instead_of_getting_everything_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_QUEUED", 2)

    async def main() -> None:
        console = new_console()
        fill(console)
        chunks, _ = await open_stream(console, "/workloads")
        for replicas in range(4, 9):
            change(console, "shop", replicas)
            await asyncio.sleep(0.06)
        assert [chunk async for chunk in chunks] == [stream.RELOAD]

    asyncio.run(main())


def test_stream_of_a_plan_does_not_plan_again() -> None:
    async def main() -> None:
        plans = []

        async def plan(change_: Any, now: Any, user: str) -> Any:
            plans.append(change_)
            raise AssertionError("only the page itself needs a plan")

        console = new_console(plan=plan)
        fill(console)
        chunks, _ = await open_stream(console, "/drill?fail=cluster:web-c0")
        change(console, "shop", 9)
        assert {patch.get("id") for patch in (await next_patch(chunks))["patches"]} == {"pulse"}
        await chunks.aclose()
        assert plans == []

    asyncio.run(main())


def test_new_workload_is_inserted_in_its_place() -> None:
    async def main() -> None:
        console = new_console()
        fill(console)
        chunks, _ = await open_stream(console, "/workloads")
        put_workload(console, "alpha", "web")
        message = await next_patch(chunks)
        rows = next(patch for patch in message["patches"] if patch.get("rows") == "workload-rows")
        assert rows["order"][:2] == ["g-alpha", "w-alpha/Deployment/web"]
        await chunks.aclose()

    asyncio.run(main())


def test_stream_ends_with_its_session() -> None:
    async def main() -> None:
        console = new_console()
        fill(console)
        chunks, session = await open_stream(console, "/")
        console.sessions.close(session)
        rest = [chunk async for chunk in chunks]
        assert rest[-1] == stream.SIGNED_OUT

    asyncio.run(main())


def test_streams_of_one_session_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_STREAMS_PER_SESSION", 2)

    async def main() -> None:
        console = new_console()
        fill(console)
        cookie, session = signed_in(console)
        request = ConsoleRequest("GET", ("events",), {"page": "/console/"}, {"cookie": f"{COOKIE}={cookie}"})
        answers = [await console.pages.follow(request, session) for _ in range(3)]
        assert [answer.code for answer in answers] == [200, 200, 503]
        for answer in answers[:2]:
            assert answer.chunks is not None
            await anext(answer.chunks)
            await answer.chunks.aclose()

    asyncio.run(main())
