"""The client over HTTP, against a server that says exactly what a test wants it to say."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from trimtab.client.client import Change, Resource
from trimtab.client.kube import AT_ONCE, KubeClient
from trimtab.client.kubeconfig import Credentials, Plugin
from trimtab.errors import Conflict, Expired, NotFound, TooManyRequests, Unauthorized

PODS = Resource("", "v1", "pods", "Pod")
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def talk(answer: Answer, conversation: Callable[[KubeClient], Awaitable[Any]], **credentials: Any) -> Any:
    """Run a conversation with a server that answers every request with `answer`."""

    async def main() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        async with TestServer(app) as server:
            client = KubeClient(Credentials(server=str(server.make_url("")).rstrip("/"), **credentials))
            try:
                return await conversation(client)
            finally:
                await client.close()

    return asyncio.run(main())


class Said(NamedTuple):
    """One answer of a server, to be sent as often as it is needed."""

    code: int
    body: dict[str, Any]
    headers: dict[str, str]

    def response(self) -> web.Response:
        return web.json_response(self.body, status=self.code, headers=self.headers)


def status(code: int, reason: str, *, wait: str = "") -> Said:
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"{reason} it is"}
    return Said(code, body, {"Retry-After": wait} if wait else {})


def pod(revision: int = 1) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "resourceVersion": str(revision)}}


async def get(client: KubeClient) -> Any:
    return await client.get(PODS, "shop", "web")


class Sequel:
    """Answers one after the other; the last one for ever."""

    def __init__(self, *answers: Said | dict[str, Any]) -> None:
        self.answers = [said if isinstance(said, Said) else Said(200, said, {}) for said in answers]
        self.requests: list[web.Request] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return said.response()


@pytest.mark.parametrize("code", [429, 503])
def test_a_server_that_asks_for_patience_is_asked_again(code: int) -> None:
    server = Sequel(status(code, "TooManyRequests", wait="0"), pod())
    assert talk(server.answer, get)["metadata"]["name"] == "web"
    assert len(server.requests) == 2


def test_the_time_that_a_server_asks_for_is_kept() -> None:
    async def timed(client: KubeClient) -> float:
        begun = asyncio.get_running_loop().time()
        await get(client)
        return asyncio.get_running_loop().time() - begun

    assert talk(Sequel(status(429, "TooManyRequests", wait="1"), pod()).answer, timed) >= 1


def test_patience_has_an_end() -> None:
    async def busy(request: web.Request) -> web.StreamResponse:
        return status(429, "TooManyRequests", wait="0").response()

    with pytest.raises(TooManyRequests):
        talk(busy, get)


def test_a_refusal_without_a_time_is_told_at_once() -> None:
    server = Sequel(status(409, "Conflict"))
    with pytest.raises(Conflict, match="Conflict it is"):
        talk(server.answer, get)
    assert len(server.requests) == 1


def test_a_path_that_nobody_serves_is_not_found_although_no_status_says_so() -> None:
    async def nowhere(request: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="404 page not found")

    with pytest.raises(NotFound, match="404 page not found"):
        talk(nowhere, lambda client: client.list(PODS))


def test_a_list_is_read_page_by_page_as_of_one_revision() -> None:
    first = {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [pod(1)]}
    second = {"metadata": {"resourceVersion": "7"}, "items": [pod(2)]}
    server = Sequel(first, second)
    listing = talk(server.answer, lambda client: client.list(PODS))
    assert ([item["apiVersion"] for item in listing.items], listing.revision) == (["v1", "v1"], "7")
    assert server.requests[1].query["continue"] == "more"


async def watched(client: KubeClient) -> list[Change]:
    return [change async for changes in client.watch(PODS, revision="7") for change in changes]


def stream(*lines: dict[str, Any], broken: bool = False) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
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

    return answer


def test_a_watch_asks_for_bookmarks_and_hands_over_every_line() -> None:
    asked: list[web.Request] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        events = stream({"type": "ADDED", "object": pod(8)}, {"type": "BOOKMARK", "object": pod(9)})
        return await events(request)

    changes = talk(answer, watched)
    assert [(change.type, change.object["metadata"]["resourceVersion"]) for change in changes] == [
        ("ADDED", "8"),
        ("BOOKMARK", "9"),
    ]
    assert (asked[0].query["allowWatchBookmarks"], asked[0].query["resourceVersion"]) == ("true", "7")


def test_a_revision_that_is_too_old_is_told_as_expired_in_either_way() -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    with pytest.raises(Expired):
        talk(stream({"type": "ERROR", "object": gone}), watched)
    with pytest.raises(Expired):
        talk(Sequel(status(410, "Expired")).answer, watched)


def test_a_line_that_breaks_is_a_connection_error_whoever_noticed() -> None:
    with pytest.raises(OSError, match=r"."):
        talk(stream({"type": "ADDED", "object": pod(8)}, broken=True), watched)


def test_watches_never_keep_a_request_from_a_connection() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response(pod())
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps({"type": "BOOKMARK", "object": pod()}).encode() + b"\n")
        await asyncio.sleep(3600)
        return response

    async def crowd(client: KubeClient) -> Any:
        watches = [client.watch(PODS, revision="1") for _ in range(AT_ONCE + 8)]
        await asyncio.gather(*(anext(watch) for watch in watches))
        found = await asyncio.wait_for(get(client), 5)
        for watch in watches:
            await watch.aclose()  # type: ignore[attr-defined]
        return found

    assert talk(answer, crowd)["kind"] == "Pod"


def plugin(tmp_path: Any) -> Plugin:
    """An exec plugin whose tokens are numbered."""
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, pathlib\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(number))\n"
        "print(json.dumps({'status': {'token': f'token-{number}'}}))\n"
    )
    return Plugin(sys.executable, (str(script),))


def test_a_refused_token_of_a_plugin_is_asked_for_again_once(tmp_path: Any) -> None:
    server = Sequel(status(401, "Unauthorized"), pod())
    talk(server.answer, get, exec=plugin(tmp_path))
    assert [r.headers["Authorization"] for r in server.requests] == ["Bearer token-1", "Bearer token-2"]
    with pytest.raises(Unauthorized):
        talk(Sequel(status(401, "Unauthorized")).answer, get, exec=plugin(tmp_path))


def test_a_refused_fixed_token_is_the_end_of_it() -> None:
    server = Sequel(status(401, "Unauthorized"))
    with pytest.raises(Unauthorized):
        talk(server.answer, get, token="secret")
    assert len(server.requests) == 1


def test_a_plugin_that_gives_nothing_is_a_refusal_and_is_asked_again_at_the_next_request(tmp_path: Any) -> None:
    login = plugin(tmp_path)
    script = tmp_path / "plugin.py"
    willing = script.read_text()
    script.write_text("import sys; sys.exit('log in first')")

    async def twice(client: KubeClient) -> Any:
        with pytest.raises(Unauthorized, match="gave no credentials: it ended with 1: log in first"):
            await get(client)
        script.write_text(willing)
        return await get(client)

    server = Sequel(pod())
    assert talk(server.answer, twice, exec=login)["kind"] == "Pod"
    assert [r.headers["Authorization"] for r in server.requests] == ["Bearer token-1"]


DEPLOYMENTS_SERVED = {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ["get", "list"]}
NODES_SERVED = {"name": "nodes", "kind": "Node", "namespaced": False, "verbs": ["list"]}
EVERYTHING_SERVED = [
    Resource("", "v1", "nodes", "Node", namespaced=False, verbs=("list",)),
    Resource("apps", "v1", "deployments", "Deployment", verbs=("get", "list")),
]


def whole_group(name: str, *versions: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    def shown(entry: dict[str, Any]) -> dict[str, Any]:
        scope = "Namespaced" if entry["namespaced"] else "Cluster"
        kind = {"group": name, "version": "v1", "kind": entry["kind"]}
        return {"resource": entry["name"], "responseKind": kind, "scope": scope, "verbs": entry["verbs"]}

    told = [{"version": v, "freshness": fresh, "resources": [shown(entry)]} for v, fresh, entry in versions]
    return {"metadata": {"name": name} if name else {}, "versions": told}


async def discover_twice(client: KubeClient) -> tuple[Any, int]:
    first = await client.resources()
    assert await client.resources() == first
    return first, client.requests


def test_what_a_server_serves_is_asked_with_two_requests() -> None:
    away = {**DEPLOYMENTS_SERVED, "name": "metrics"}
    whole = {
        "/api": [whole_group("", ("v1", "Current", NODES_SERVED))],
        "/apis": [
            whole_group("apps", ("v1", "Current", DEPLOYMENTS_SERVED), ("v1beta1", "Current", DEPLOYMENTS_SERVED)),
            whole_group("metrics.k8s.io", ("v1", "Stale", away)),
        ],
    }

    async def answer(request: web.Request) -> web.StreamResponse:
        assert "as=APIGroupDiscoveryList" in request.headers["Accept"]
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": whole[request.path]})

    assert talk(answer, discover_twice) == (EVERYTHING_SERVED, 4)


def test_a_server_that_does_not_tell_everything_at_once_is_asked_for_each_group() -> None:
    group = {"name": "apps", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}
    pieces: dict[str, dict[str, Any]] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": {"resources": [NODES_SERVED]},
        "/apis": {"kind": "APIGroupList", "groups": [group]},
        "/apis/apps/v1": {"resources": [DEPLOYMENTS_SERVED, {**DEPLOYMENTS_SERVED, "name": "deployments/status"}]},
    }

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(pieces[request.path])

    assert talk(answer, discover_twice) == (EVERYTHING_SERVED, 8)
