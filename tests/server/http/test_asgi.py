"""Clients that misbehave: they harm nobody but themselves."""

import asyncio
from typing import Any

from server.asgi import ADMIN, Wire, with_wire

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def scope_of(path: str, query: str = "") -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [],
        "server": ("127.0.0.1", 6443),
        "certificate_user": ADMIN,
    }


def test_a_watcher_that_stops_reading_blocks_nobody_and_is_dropped() -> None:
    async def story(wire: Wire) -> None:
        sent: list[bytes] = []
        asked = False

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": b""}
            await asyncio.sleep(100_000)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message.get("body"):
                sent.append(message["body"])
                await asyncio.sleep(100_000)  # the connection is full

        watching = asyncio.ensure_future(wire.server.app(scope_of(CONFIG_MAPS, "watch=1"), receive, send))
        await asyncio.sleep(1)
        for index in range(50):
            assert (await wire("POST", CONFIG_MAPS, {"metadata": {"name": f"c{index}"}})).status == 201
        await asyncio.wait_for(watching, 120)
        assert len(sent) == 1
        assert wire.server.app.watchers == 0

    with_wire(story)


def test_watchers_leave_when_the_server_is_about_to_stop() -> None:
    async def story(wire: Wire) -> None:
        watching = asyncio.ensure_future(wire("GET", f"{CONFIG_MAPS}?watch=1"))
        await asyncio.sleep(1)
        assert wire.server.app.watchers == 1
        wire.server.app.end_streams()
        assert (await asyncio.wait_for(watching, 1)).status == 200

    with_wire(story)


def test_humans_get_indented_answers() -> None:
    async def story(wire: Wire) -> None:
        assert b'\n  "kind"' in (await wire("GET", CONFIG_MAPS, user_agent="curl/8")).body
        assert b"\n  " not in (await wire("GET", CONFIG_MAPS, user_agent="kubectl/1")).body
        assert b'\n  "kind"' in (await wire("GET", f"{CONFIG_MAPS}?pretty=true")).body

    with_wire(story)


def test_yaml_comes_back_to_those_who_ask_for_it() -> None:
    async def story(wire: Wire) -> None:
        body = b"metadata:\n  name: y\ndata:\n  day: '2020-01-01'\n"
        told = await wire("POST", CONFIG_MAPS, body, content_type="application/yaml", accept="application/yaml")
        assert (told.status, told.headers["content-type"]) == (201, "application/yaml")
        assert b"name: y" in told.body

    with_wire(story)


def test_large_answers_are_compressed_for_those_who_can_read_it() -> None:
    async def story(wire: Wire) -> None:
        for index in range(40):
            await wire("POST", CONFIG_MAPS, {"metadata": {"name": f"c{index}"}, "data": {"k": "v" * 8000}})
        plain = await wire("GET", CONFIG_MAPS)
        packed = await wire("GET", CONFIG_MAPS, accept_encoding="gzip")
        assert packed.headers["content-encoding"] == "gzip"
        assert len(packed.body) < len(plain.body) / 5

    with_wire(story)
