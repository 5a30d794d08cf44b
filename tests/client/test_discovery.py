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
