"""Role-based access control."""

from server.asgi import AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, CONFIG_MAPS, RBAC, grant


def test_anonymous_requests_may_only_read_health_and_version() -> None:
    async def scenario(client: AsgiClient) -> None:
        for path in ("/readyz", "/livez", "/healthz", "/version"):
            assert (await client("GET", path, user=None)).status == 200
        for path in ("/api", "/apis", "/metrics", "/openapi/v3", CONFIG_MAPS):
            assert (await client("GET", path, user=None)).status == 403

    with_asgi_client(scenario)


def test_role_binding_grants_exactly_the_rules_of_its_role() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("GET", CONFIG_MAPS, user=ALICE)).status == 403
        await grant(client, "ClusterRole", "view")
        assert (await client("GET", CONFIG_MAPS, user=ALICE)).status == 200
        assert (await client("GET", "/api/v1/namespaces/default/secrets", user=ALICE)).status == 403
        assert (await client("GET", "/api/v1/namespaces/kube-system/configmaps", user=ALICE)).status == 403
        refused = await client("DELETE", f"{CONFIG_MAPS}/x", user=ALICE)
        assert refused.json()["message"] == (
            'configmaps "x" is forbidden: User "alice" cannot delete resource "configmaps" in API group "" '
            'in the namespace "default"'
        )

    with_asgi_client(scenario)


def test_deleting_a_role_binding_revokes_access_at_once() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant(client, "ClusterRole", "view")
        assert (await client("GET", CONFIG_MAPS, user=ALICE)).status == 200
        await client("DELETE", f"{RBAC}/namespaces/default/rolebindings/alice-view")
        assert (await client("GET", CONFIG_MAPS, user=ALICE)).status == 403

    with_asgi_client(scenario)
