"""Requests over HTTP, against a server with scripted responses: retries, credentials, connections, redirects."""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from aiohttp import web

from client.scripted_server import (
    PODS,
    ResponseSequence,
    get,
    pod,
    run_with_server,
    status,
    watch_events,
)
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import ExecPlugin
from trimtab.client.transport import MAX_SESSION_CONNECTIONS
from trimtab.errors import ApiError, Conflict, NotFound, TooManyRequests, Unauthorized


@pytest.mark.parametrize("code", [429, 503])
def test_request_is_retried_after_retry_after(code: int) -> None:
    server = ResponseSequence(status(code, "TooManyRequests", wait="0"), pod())
    assert run_with_server(server.handle, get)["metadata"]["name"] == "web"
    assert len(server.requests) == 2


def test_retry_waits_for_the_time_in_retry_after() -> None:
    async def measure_get(client: KubeClient) -> float:
        started = asyncio.get_running_loop().time()
        await get(client)
        return asyncio.get_running_loop().time() - started

    assert run_with_server(ResponseSequence(status(429, "TooManyRequests", wait="1"), pod()).handle, measure_get) >= 1


def test_retries_are_limited() -> None:
    async def busy(request: web.Request) -> web.StreamResponse:
        return status(429, "TooManyRequests", wait="0").build()

    with pytest.raises(TooManyRequests):
        run_with_server(busy, get)


def test_refusal_without_retry_after_is_raised_at_once() -> None:
    server = ResponseSequence(status(409, "Conflict"))
    with pytest.raises(Conflict, match="Conflict it is"):
        run_with_server(server.handle, get)
    assert len(server.requests) == 1


def test_plain_404_without_a_status_is_not_found() -> None:
    async def nowhere(request: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="404 page not found")

    with pytest.raises(NotFound, match="404 page not found"):
        run_with_server(nowhere, lambda client: client.list(PODS))


def test_watches_do_not_use_up_the_connections_of_requests() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response(pod())
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps({"type": "BOOKMARK", "object": pod()}).encode() + b"\n")
        await asyncio.sleep(3600)
        return response

    async def watch_and_get(client: KubeClient) -> Any:
        watches = [client.watch(PODS, revision="1") for _ in range(MAX_SESSION_CONNECTIONS + 8)]
        await asyncio.gather(*(anext(watch) for watch in watches))
        found = await asyncio.wait_for(get(client), 5)
        for watch in watches:
            await watch.aclose()  # type: ignore[attr-defined]
        return found

    assert run_with_server(handle, watch_and_get)["kind"] == "Pod"


def plugin(tmp_path: Any) -> ExecPlugin:
    """An exec plugin whose tokens are numbered."""
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, pathlib\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(number))\n"
        "print(json.dumps({'status': {'token': f'token-{number}'}}))\n"
    )
    return ExecPlugin(sys.executable, (str(script),))


def test_refused_plugin_token_is_renewed_once(tmp_path: Any) -> None:
    server = ResponseSequence(status(401, "Unauthorized"), pod())
    run_with_server(server.handle, get, exec=plugin(tmp_path))
    assert [r.headers["Authorization"] for r in server.requests] == ["Bearer token-1", "Bearer token-2"]
    with pytest.raises(Unauthorized):
        run_with_server(ResponseSequence(status(401, "Unauthorized")).handle, get, exec=plugin(tmp_path))


def test_refused_static_token_is_not_retried() -> None:
    server = ResponseSequence(status(401, "Unauthorized"))
    with pytest.raises(Unauthorized):
        run_with_server(server.handle, get, token="secret")
    assert len(server.requests) == 1


def test_failing_plugin_is_unauthorized_and_runs_again_at_the_next_request(tmp_path: Any) -> None:
    login = plugin(tmp_path)
    script = tmp_path / "plugin.py"
    working_script = script.read_text()
    script.write_text("import sys; sys.exit('log in first')")

    async def twice(client: KubeClient) -> Any:
        with pytest.raises(Unauthorized, match="returned no credentials: it exited with code 1: log in first"):
            await get(client)
        script.write_text(working_script)
        return await get(client)

    server = ResponseSequence(pod())
    assert run_with_server(server.handle, twice, exec=login)["kind"] == "Pod"
    assert [r.headers["Authorization"] for r in server.requests] == ["Bearer token-1"]


@pytest.mark.parametrize("proxied", [False, True])
def test_redirect_is_an_error_and_not_followed(proxied: bool) -> None:
    paths: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async def scenario(client: KubeClient) -> None:
        if proxied:
            transport = client._transport
            transport._credentials = transport._credentials._replace(proxy=transport._credentials.server)
        for send in (get(client), client.delete(PODS, "shop", "web"), watch_events(client)):
            with pytest.raises(ApiError, match="redirects are not followed"):
                await send

    run_with_server(handle, scenario)
    assert "/elsewhere" not in paths
    assert len(paths) == 3


@pytest.mark.parametrize("name", ["web", "web-0.a_b~c", "system:node", "50%", "a b", "é", "a?b#c", "a\tb", ""])
@pytest.mark.parametrize(
    "value", ["app", "a-b_c.d~e", "app=web,tier in (a, b)", "a/b", "50%+1", "é", "a\r\nb", "a&b=c"]
)
def test_request_target_is_escaped_where_it_has_to_be(name: str, value: str) -> None:
    seen: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append(request.raw_path)
        return web.json_response(pod())

    async def replace(client: KubeClient) -> None:
        metadata = {"namespace": "shop", "name": name}
        await client.replace(PODS, {"metadata": metadata}, manager=value)

    run_with_server(handle, replace)
    path = quote(PODS.path("shop", name), safe="/:@!$&'()*+,;=~")
    assert seen == [f"{path}?{urlencode({'fieldManager': value})}"]
