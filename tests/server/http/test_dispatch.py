"""Dispatch of requests to their handlers."""

from server.asgi import ADMIN, AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, CONFIG_MAPS
from trimtab.server.request.messages import Request


def test_impersonation_requires_permission() -> None:
    async def scenario(client: AsgiClient) -> None:
        refused = await client("GET", CONFIG_MAPS, user=ALICE, impersonate_user="bob")
        assert (refused.status, refused.json()["reason"]) == (403, "Forbidden")
        as_nobody = await client("GET", CONFIG_MAPS, impersonate_user="bob")
        assert 'User "bob" cannot list' in as_nobody.json()["message"]

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
