"""The client over HTTP, against a server with scripted responses."""

import pytest
from aiohttp import web

from client.scripted_server import PODS, Handler, ResponseSequence, pod, run_with_server, status, stream, watch_events
from trimtab.client.client import Changes
from trimtab.client.kube import KubeClient
from trimtab.errors import Expired


def test_list_reads_all_pages_of_one_revision() -> None:
    first = {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [pod(1)]}
    second = {"metadata": {"resourceVersion": "7"}, "items": [pod(2)]}
    server = ResponseSequence(first, second)
    listing = run_with_server(server.handle, lambda client: client.list(PODS))
    assert ([item["apiVersion"] for item in listing.items], listing.revision) == (["v1", "v1"], "7")
    assert server.requests[1].query["continue"] == "more"


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


def server_with_changes(revision: str, *events: dict[str, object], broken: bool = False) -> tuple[Handler, list[str]]:
    """A server at a revision, whose watch sends these events; and the requests that it got."""
    requests: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append(f"watch {request.query['resourceVersion']}" if "watch" in request.query else "list")
        if "watch" in request.query:
            return await stream(*events, broken=broken)(request)
        return web.json_response({"metadata": {"resourceVersion": revision}, "items": [pod(5)]})

    return handle, requests


async def changes_since_3(client: KubeClient) -> list[Changes]:
    return [
        part async for part in client.list_changes(PODS, {("shop", "web"): "3", ("shop", "old"): "2"}, revision="3")
    ]


def test_changes_since_a_revision_come_from_a_watch_up_to_a_bookmark_of_now() -> None:
    removed = {"kind": "Pod", "metadata": {"name": "old", "namespace": "shop", "resourceVersion": "6"}}
    events = [{"type": "MODIFIED", "object": pod(5)}, {"type": "DELETED", "object": removed}]
    handle, requests = server_with_changes("7", *events, {"type": "BOOKMARK", "object": pod(8)})
    [part] = run_with_server(handle, changes_since_3)
    assert ([one["metadata"]["resourceVersion"] for one in part.changed], part.gone) == (["5"], [("shop", "old")])
    assert (part.revision, requests) == ("8", ["list", "watch 3"])


@pytest.mark.parametrize("revision", ["2", "7"])
def test_changes_come_from_a_list_where_the_watch_does_not_reach_the_present(revision: str) -> None:
    handle, requests = server_with_changes(revision, {"type": "MODIFIED", "object": pod(4)})
    parts = run_with_server(handle, changes_since_3)
    assert [one["metadata"]["resourceVersion"] for part in parts for one in part.changed] == ["5"]
    assert [name for part in parts for name in part.gone] == [("shop", "old")]
    assert requests[-1] == "list"
