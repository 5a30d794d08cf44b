"""The ASGI application: slow watchers, shutdown, response formats."""

import asyncio
import threading
from typing import Any

import pytest

from server.asgi import ADMIN, AsgiClient, with_asgi_client
from trimtab.server.http import asgi

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


def test_watcher_that_stops_reading_blocks_no_writer_and_is_disconnected() -> None:
    async def scenario(client: AsgiClient) -> None:
        sent: list[bytes] = []
        body_sent = False

        async def receive() -> dict[str, Any]:
            nonlocal body_sent
            if not body_sent:
                body_sent = True
                return {"type": "http.request", "body": b""}
            await asyncio.sleep(100_000)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message.get("body"):
                sent.append(message["body"])
                await asyncio.sleep(100_000)  # the connection is full

        watching = asyncio.ensure_future(client.server.app(scope_of(CONFIG_MAPS, "watch=1"), receive, send))
        await asyncio.sleep(1)
        for index in range(50):
            assert (await client("POST", CONFIG_MAPS, {"metadata": {"name": f"c{index}"}})).status == 201
        await asyncio.wait_for(watching, 120)
        assert len(sent) == 1
        assert client.server.app.watcher_count == 0

    with_asgi_client(scenario)


def test_end_streams_ends_open_watches() -> None:
    async def scenario(client: AsgiClient) -> None:
        watching = asyncio.ensure_future(client("GET", f"{CONFIG_MAPS}?watch=1"))
        await asyncio.sleep(1)
        assert client.server.app.watcher_count == 1
        client.server.app.end_streams()
        assert (await asyncio.wait_for(watching, 1)).status == 200

    with_asgi_client(scenario)


def test_curl_gets_indented_json() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert b'\n  "kind"' in (await client("GET", CONFIG_MAPS, user_agent="curl/8")).body
        assert b"\n  " not in (await client("GET", CONFIG_MAPS, user_agent="kubectl/1")).body
        assert b'\n  "kind"' in (await client("GET", f"{CONFIG_MAPS}?pretty=true")).body

    with_asgi_client(scenario)


def test_accept_yaml_returns_yaml() -> None:
    async def scenario(client: AsgiClient) -> None:
        body = b"metadata:\n  name: y\ndata:\n  day: '2020-01-01'\n"
        response = await client("POST", CONFIG_MAPS, body, content_type="application/yaml", accept="application/yaml")
        assert (response.status, response.headers["content-type"]) == (201, "application/yaml")
        assert b"name: y" in response.body

    with_asgi_client(scenario)


def test_large_yaml_response_is_made_outside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    render = asgi._render_body

    def recording_render(*arguments: Any) -> bytes:
        threads.append(threading.current_thread() is threading.main_thread())
        return render(*arguments)

    monkeypatch.setattr(asgi, "_render_body", recording_render)

    async def scenario(client: AsgiClient) -> None:
        await client("POST", CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"k": "v" * 40_000}})
        threads.clear()
        assert b"name: c" in (await client("GET", f"{CONFIG_MAPS}/c", accept="application/yaml")).body
        assert threads == [False]

    with_asgi_client(scenario)


def test_large_response_is_compressed_when_client_accepts_gzip() -> None:
    async def scenario(client: AsgiClient) -> None:
        for index in range(40):
            await client("POST", CONFIG_MAPS, {"metadata": {"name": f"c{index}"}, "data": {"k": "v" * 8000}})
        plain = await client("GET", CONFIG_MAPS)
        compressed = await client("GET", CONFIG_MAPS, accept_encoding="gzip")
        assert compressed.headers["content-encoding"] == "gzip"
        assert len(compressed.body) < len(plain.body) / 5

    with_asgi_client(scenario)
