"""The client over HTTP, against a server with scripted responses."""

import pytest
from aiohttp import web

from client.scripted_server import PODS, ResponseSequence, pod, run_with_server, status, stream, watch_events
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
