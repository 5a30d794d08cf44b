"""Dispatch of requests to their handlers."""

import pytest

from server.asgi import ADMIN, AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, CONFIG_MAPS, ROLES, cluster_role, grant, grant_cluster_rules, rule
from trimtab.server.request.messages import Request


def test_impersonation_requires_permission() -> None:
    async def scenario(client: AsgiClient) -> None:
        refused = await client("GET", CONFIG_MAPS, user=ALICE, impersonate_user="bob")
        assert (refused.status, refused.json()["reason"]) == (403, "Forbidden")
        as_nobody = await client("GET", CONFIG_MAPS, impersonate_user="bob")
        assert 'User "bob" cannot list' in as_nobody.json()["message"]

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    "path",
    [
        CONFIG_MAPS,
        f"{CONFIG_MAPS}/one",
        f"{CONFIG_MAPS}?watch=true",
        "/readyz",
        "/api",
        "/apis/apps/v1",
        "/openapi/v3",
        "/absent",
    ],
)
def test_head_is_a_get_without_a_body(path: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "reader", rule("get list watch", "configmaps"))
        await client("POST", CONFIG_MAPS, {"metadata": {"name": "one"}})
        head = await client("HEAD", path, user=ALICE)
        assert head.body == b""
        if "watch" in path:
            assert head.status == 200
            return
        got = await client("GET", path, user=ALICE)
        assert (head.status, head.headers["content-length"]) == (got.status, str(len(got.body)))

    with_asgi_client(scenario)


def test_head_requires_what_a_get_requires() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "reader", rule("list", "configmaps"))
        assert (await client("HEAD", CONFIG_MAPS, user=ALICE)).status == 200
        assert (await client("HEAD", f"{CONFIG_MAPS}/one", user=ALICE)).status == 403
        assert (await client("HEAD", "/api/v1/namespaces/default/secrets", user=ALICE)).status == 403
        assert (await client("HEAD", "/version", user=None)).status == 405  # as kube-apiserver
        assert (await client("HEAD", "/metrics", user=ALICE)).status == 403

    with_asgi_client(scenario)


def test_role_of_a_namespace_allows_requests_for_the_namespace_itself() -> None:
    async def scenario(client: AsgiClient) -> None:
        await client("POST", ROLES, cluster_role("reader", rule("get", "namespaces")))
        await client("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        assert (await client("GET", "/api/v1/namespaces/default", user=ALICE)).status == 403
        await grant(client, "ClusterRole", "reader")  # in the namespace default
        assert (await client("GET", "/api/v1/namespaces/default", user=ALICE)).status == 200
        assert (await client("DELETE", "/api/v1/namespaces/default", user=ALICE)).status == 403
        refused = await client("GET", "/api/v1/namespaces/other", user=ALICE)
        assert (refused.status, 'in the namespace "other"' in refused.json()["message"]) == (403, True)
        assert (await client("GET", "/api/v1/namespaces", user=ALICE)).status == 403

    with_asgi_client(scenario)


ONLY_ONE = rule("list watch deletecollection get", "configmaps", resourceNames=["one"])


@pytest.mark.parametrize(
    "selector", ["metadata.name=one", "metadata.name==one", "metadata.name=one,metadata.namespace=default"]
)
def test_resource_names_allow_collections_of_one_name(selector: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "one", ONLY_ONE)
        for name in ("one", "two"):
            await client("POST", CONFIG_MAPS, {"metadata": {"name": name}})
        query = selector.replace("=", "%3D").replace(",", "%2C")
        listed = await client("GET", f"{CONFIG_MAPS}?fieldSelector={query}", user=ALICE)
        assert [item["metadata"]["name"] for item in listed.json()["items"]] == ["one"]
        everywhere = await client("GET", f"/api/v1/configmaps?fieldSelector={query}", user=ALICE)
        assert [item["metadata"]["name"] for item in everywhere.json()["items"]] == ["one"]
        watched = await client("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&fieldSelector={query}", user=ALICE)
        assert (watched.status, watched.body.count(b'"ADDED"')) == (200, 1)
        assert (await client("DELETE", f"{CONFIG_MAPS}?fieldSelector={query}", user=ALICE)).status == 200
        left = (await client("GET", CONFIG_MAPS)).json()["items"]
        assert [item["metadata"]["name"] for item in left] == ["two"]

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?fieldSelector=metadata.name!%3Done",
        "?fieldSelector=metadata.name%3Dtwo",
        "?fieldSelector=metadata.name%3Dtwo&fieldSelector=metadata.name%3Done",
        "?fieldSelector=metadata.name",
        "?fieldSelector=metadata.namespace%3Done",
        "?labelSelector=metadata.name%3Done",
    ],
)
def test_resource_names_allow_no_other_collections(query: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "one", ONLY_ONE)
        for method in ("GET", "DELETE", "HEAD"):
            assert (await client(method, f"{CONFIG_MAPS}{query}", user=ALICE)).status == 403
        assert (await client("POST", CONFIG_MAPS, {"metadata": {"name": "one"}}, user=ALICE)).status == 403

    with_asgi_client(scenario)


def test_expensive_requests_take_more_seats_and_long_running_ones_none() -> None:
    async def scenario(client: AsgiClient) -> None:
        handler, path = client.server.handler, "/api/v1/namespaces/default/configmaps"

        def seats(method: str, path: str, **query: str) -> int:
            request = Request(method, path, query, {}, certificate_user=ADMIN)
            return handler.estimate_seats(request, handler.identify(request))

        assert seats("GET", path) == 1
        for index in range(350):
            await client("POST", path, {"metadata": {"name": f"c{index}"}})
        assert seats("GET", path) == 3
        assert seats("GET", path, limit="100") == 1
        assert seats("GET", path, watch="1") == 1
        assert seats("GET", f"{path}/c1") == 1
        assert seats("DELETE", path) == 3
        assert seats("GET", "/api/v1/namespaces/default/pods/x/log") == 0
        assert seats("GET", "/api/v1/namespaces/default/unknown") == 1

    with_asgi_client(scenario)
