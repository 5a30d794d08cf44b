"""Discovery over HTTP, with and without aggregated documents."""

from typing import Any

import pytest
from aiohttp import web

from client.scripted_server import ResponseSequence, run_with_server
from trimtab.client.client import Resource
from trimtab.client.kube import KubeClient
from trimtab.errors import ApiError

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
    return [*first], client.requests


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


def test_unchanged_documents_are_not_sent_again() -> None:
    sent: list[tuple[str, int]] = []
    kinds = {"/api": ["1", NODES_SERVED], "/apis": ["1", DEPLOYMENTS_SERVED]}

    async def handle(request: web.Request) -> web.StreamResponse:
        version, served = kinds[request.path]
        is_known = request.headers.get("If-None-Match") == f'"{version}"'
        sent.append((request.path, 304 if is_known else 200))
        headers = {"ETag": f'"{version}"'}
        if is_known:
            return web.Response(status=304, headers=headers)
        groups = [group_discovery("" if request.path == "/api" else "apps", ("v1", "Current", served))]
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": groups}, headers=headers)

    async def discover(client: KubeClient) -> list[Any]:
        found = [await client.resources(), await client.resources()]
        kinds["/apis"] = ["2", {**DEPLOYMENTS_SERVED, "name": "statefulsets", "kind": "StatefulSet"}]
        return [*found, await client.resources()]

    first, second, third = run_with_server(handle, discover)
    assert sent == [("/api", 200), ("/apis", 200), ("/api", 304), ("/apis", 304), ("/api", 304), ("/apis", 200)]
    assert [*first] == ALL_RESOURCES
    assert second is first
    assert [resource.kind for resource in third] == ["Node", "StatefulSet"]


def test_members_with_equal_documents_share_what_was_read() -> None:
    documents = {
        "/api": [group_discovery("", ("v1", "Current", NODES_SERVED))],
        "/apis": [group_discovery("apps", ("v1", "Current", DEPLOYMENTS_SERVED))],
    }

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": documents[request.path]})

    first, second = (run_with_server(handle, lambda client: client.resources()) for _ in range(2))
    assert first is second


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
