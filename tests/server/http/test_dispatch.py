"""Dispatch of requests to their handlers."""

from server.asgi import AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, CONFIG_MAPS


def test_impersonation_requires_permission() -> None:
    async def scenario(client: AsgiClient) -> None:
        refused = await client("GET", CONFIG_MAPS, user=ALICE, impersonate_user="bob")
        assert (refused.status, refused.json()["reason"]) == (403, "Forbidden")
        as_nobody = await client("GET", CONFIG_MAPS, impersonate_user="bob")
        assert 'User "bob" cannot list' in as_nobody.json()["message"]

    with_asgi_client(scenario)
