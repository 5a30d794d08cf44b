"""The event stream: one message per page and round, only for what changed, and nothing after the session has ended."""

import asyncio
from typing import Any

import orjson
import pytest

from console.fake_console import fill, new_console, put_workload, signed_in
from trimtab.console import stream
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
    response = await console._events(
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
        answers = [await console._events(request, session) for _ in range(3)]
        assert [answer.code for answer in answers] == [200, 200, 503]
        for answer in answers[:2]:
            assert answer.chunks is not None
            await anext(answer.chunks)
            await answer.chunks.aclose()

    asyncio.run(main())
