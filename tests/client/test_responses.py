"""Malformed responses are refusals, never other exceptions."""

from typing import Any

import pytest
from aiohttp import web

from client.scripted_server import PODS, ResponseSequence, get, run_with_server, stream, watch_events
from trimtab.errors import ApiError

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
