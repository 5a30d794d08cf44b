"""The client over HTTP, against a server with scripted responses."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from trimtab.client.client import Resource, WatchEvent
from trimtab.client.kube import MAX_SESSION_CONNECTIONS, KubeClient
from trimtab.client.kubeconfig import Credentials, ExecPlugin
from trimtab.errors import ApiError, Conflict, Expired, NotFound, TooManyRequests, Unauthorized

PODS = Resource("", "v1", "pods", "Pod")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def run_with_server(handle: Handler, scenario: Callable[[KubeClient], Awaitable[Any]], **credentials: Any) -> Any:
    """Run a scenario against a server that handles every request with `handle`."""

    async def main() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        async with TestServer(app) as server:
            client = KubeClient(Credentials(server=str(server.make_url("")).rstrip("/"), **credentials))
            try:
                return await scenario(client)
            finally:
                await client.close()

    return asyncio.run(main())


class ScriptedResponse(NamedTuple):
    """A response that can be sent several times."""

    code: int
    body: dict[str, Any]
    headers: dict[str, str]

    def build(self) -> web.Response:
        return web.json_response(self.body, status=self.code, headers=self.headers)


def status(code: int, reason: str, *, wait: str = "") -> ScriptedResponse:
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"{reason} it is"}
    return ScriptedResponse(code, body, {"Retry-After": wait} if wait else {})


def pod(revision: int = 1) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "resourceVersion": str(revision)}}


async def get(client: KubeClient) -> Any:
    return await client.get(PODS, "shop", "web")


class ResponseSequence:
    """Sends the given responses in order, and repeats the last one."""

    def __init__(self, *responses: ScriptedResponse | dict[str, Any]) -> None:
        self.responses = [
            response if isinstance(response, ScriptedResponse) else ScriptedResponse(200, response, {})
            for response in responses
        ]
        self.requests: list[web.Request] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        response = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        return response.build()


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


def test_list_reads_all_pages_of_one_revision() -> None:
    first = {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [pod(1)]}
    second = {"metadata": {"resourceVersion": "7"}, "items": [pod(2)]}
    server = ResponseSequence(first, second)
    listing = run_with_server(server.handle, lambda client: client.list(PODS))
    assert ([item["apiVersion"] for item in listing.items], listing.revision) == (["v1", "v1"], "7")
    assert server.requests[1].query["continue"] == "more"


async def watch_events(client: KubeClient) -> list[WatchEvent]:
    return [change async for changes in client.watch(PODS, revision="7") for change in changes]


def stream(*lines: dict[str, Any], broken: bool = False) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for line in lines:
            text = json.dumps(line).encode() + b"\n"
            await response.write(text[:9])
            await asyncio.sleep(0.01)  # lines come in pieces
            await response.write(text[9:])
        if broken and request.transport is not None:
            request.transport.close()
        return response

    return handle


def test_watch_requests_bookmarks_and_returns_every_event() -> None:
    requests: list[web.Request] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        events = stream({"type": "ADDED", "object": pod(8)}, {"type": "BOOKMARK", "object": pod(9)})
        return await events(request)

    changes = run_with_server(handle, watch_events)
    assert [(change.type, change.object["metadata"]["resourceVersion"]) for change in changes] == [
        ("ADDED", "8"),
        ("BOOKMARK", "9"),
    ]
    assert (requests[0].query["allowWatchBookmarks"], requests[0].query["resourceVersion"]) == ("true", "7")


def test_too_old_revision_is_expired_as_event_and_as_response() -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    with pytest.raises(Expired):
        run_with_server(stream({"type": "ERROR", "object": gone}), watch_events)
    with pytest.raises(Expired):
        run_with_server(ResponseSequence(status(410, "Expired")).handle, watch_events)


def test_broken_watch_connection_is_an_oserror() -> None:
    with pytest.raises(OSError, match=r"."):
        run_with_server(stream({"type": "ADDED", "object": pod(8)}, broken=True), watch_events)


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


DEPLOYMENTS_SERVED = {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ["get", "list"]}
NODES_SERVED = {"name": "nodes", "kind": "Node", "namespaced": False, "verbs": ["list"]}
ALL_RESOURCES = [
    Resource("", "v1", "nodes", "Node", namespaced=False, verbs=("list",)),
    Resource("apps", "v1", "deployments", "Deployment", verbs=("get", "list")),
]


def group_discovery(name: str, *versions: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    def discovery_entry(entry: dict[str, Any]) -> dict[str, Any]:
        scope = "Namespaced" if entry["namespaced"] else "Cluster"
        kind = {"group": name, "version": "v1", "kind": entry["kind"]}
        return {"resource": entry["name"], "responseKind": kind, "scope": scope, "verbs": entry["verbs"]}

    entries = [
        {"version": v, "freshness": fresh, "resources": [discovery_entry(entry)]} for v, fresh, entry in versions
    ]
    return {"metadata": {"name": name} if name else {}, "versions": entries}


async def discover_twice(client: KubeClient) -> tuple[Any, int]:
    first = await client.resources()
    assert await client.resources() == first
    return first, client.requests


def test_aggregated_discovery_takes_two_requests() -> None:
    stale = {**DEPLOYMENTS_SERVED, "name": "metrics"}
    documents = {
        "/api": [group_discovery("", ("v1", "Current", NODES_SERVED))],
        "/apis": [
            group_discovery("apps", ("v1", "Current", DEPLOYMENTS_SERVED), ("v1beta1", "Current", DEPLOYMENTS_SERVED)),
            group_discovery("metrics.k8s.io", ("v1", "Stale", stale)),
        ],
    }

    async def handle(request: web.Request) -> web.StreamResponse:
        assert "as=APIGroupDiscoveryList" in request.headers["Accept"]
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": documents[request.path]})

    assert run_with_server(handle, discover_twice) == (ALL_RESOURCES, 4)


def test_server_without_aggregated_discovery_is_queried_per_group_version() -> None:
    group = {"name": "apps", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}
    pieces: dict[str, dict[str, Any]] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": {"resources": [NODES_SERVED]},
        "/apis": {"kind": "APIGroupList", "groups": [group]},
        "/apis/apps/v1": {"resources": [DEPLOYMENTS_SERVED, {**DEPLOYMENTS_SERVED, "name": "deployments/status"}]},
    }

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response(pieces[request.path])

    assert run_with_server(handle, discover_twice) == (ALL_RESOURCES, 8)


MALFORMED_STATUSES: list[Any] = [
    {"reason": ["Conflict"], "message": {"a": 1}},
    {"reason": "Conflict", "details": "x"},
    {"details": {"causes": "x", "retryAfterSeconds": "soon", "name": 1, "group": [], "kind": {}}},
    {"details": {"causes": [1, None, {"reason": 1, "message": [], "field": {}}], "retryAfterSeconds": True}},
    {"details": ["x"], "code": "409"},
    ["x"],
    "x",
]


@pytest.mark.parametrize("body", MALFORMED_STATUSES)
def test_malformed_status_is_an_api_error(body: Any) -> None:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=409, headers={"Retry-After": "\xb2"})

    with pytest.raises(ApiError):
        run_with_server(handle, get)

    with pytest.raises(ApiError):
        run_with_server(stream({"type": "ERROR", "object": body}), watch_events)


@pytest.mark.parametrize(
    "line", [{}, {"type": 1}, {"type": "ADDED"}, {"type": "ADDED", "object": []}, {"type": "ADDED", "object": {}}]
)
def test_malformed_watch_event_is_an_api_error(line: dict[str, Any]) -> None:
    with pytest.raises(ApiError):
        run_with_server(stream(line), watch_events)


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"metadata": "x"},
        {"metadata": {"resourceVersion": 1}},
        {"metadata": {"resourceVersion": "1"}, "items": "x"},
        {"metadata": {"resourceVersion": "1"}, "items": [1]},
        {"metadata": {"resourceVersion": "1"}, "items": [{}]},
    ],
)
def test_malformed_list_is_an_api_error(page: dict[str, Any]) -> None:
    with pytest.raises(ApiError):
        run_with_server(ResponseSequence(page).handle, lambda client: client.list(PODS))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": "APIGroupDiscoveryList", "items": [1]},
        {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {}, "versions": [{"resources": [{}, 1]}]}]},
        {"versions": "x", "groups": [{}]},
        {"versions": [], "groups": [{"name": "a", "versions": [], "preferredVersion": 1}]},
    ],
)
def test_malformed_discovery_is_an_api_error(document: dict[str, Any]) -> None:
    with pytest.raises(ApiError):
        run_with_server(ResponseSequence(document).handle, lambda client: client.resources())


@pytest.mark.parametrize("proxied", [False, True])
def test_redirect_is_an_error_and_not_followed(proxied: bool) -> None:
    paths: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async def scenario(client: KubeClient) -> None:
        if proxied:
            client._credentials = client._credentials._replace(proxy=client._credentials.server)
        for send in (get(client), client.delete(PODS, "shop", "web"), watch_events(client)):
            with pytest.raises(ApiError, match="redirects are not followed"):
                await send

    run_with_server(handle, scenario)
    assert "/elsewhere" not in paths
    assert len(paths) == 3
