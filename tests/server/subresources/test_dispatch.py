"""Small subresources: status, token, log and connections."""

import pytest

from server.asgi import AsgiClient, with_asgi_client

PODS = "/api/v1/namespaces/default/pods"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "c"}], "nodeName": "n"}}


def test_status_is_written_only_through_its_subresource() -> None:
    async def scenario(wire: AsgiClient) -> None:
        merge = {"content_type": "application/merge-patch+json"}
        await wire("POST", PODS, POD)
        patch = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}}
        assert (await wire("PATCH", f"{PODS}/p", patch, **merge)).json()["status"]["phase"] == "Pending"
        assert (await wire("PATCH", f"{PODS}/p/status", patch, **merge)).json()["status"]["phase"] == "Running"

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    ("seconds", "status"), [(None, 201), (600, 201), (599, 422), (1 << 32, 201), ((1 << 32) + 1, 422)]
)
def test_token_lifetime_is_limited(seconds: int | None, status: int) -> None:
    async def scenario(wire: AsgiClient) -> None:
        await wire("POST", ACCOUNTS, {"metadata": {"name": "s"}})
        body = {"kind": "TokenRequest", "spec": {"expirationSeconds": seconds} if seconds is not None else {}}
        response = await wire("POST", f"{ACCOUNTS}/s/token", body)
        assert response.status == status
        if status == 201:
            assert response.json()["spec"]["expirationSeconds"] == (seconds or 3600)
            assert response.json()["status"]["token"].count(".") == 2

    with_asgi_client(scenario)


def test_log_needs_a_known_container() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await wire("POST", PODS, POD)
        refused = await wire("GET", f"{PODS}/p/log?container=other")
        assert (refused.status, refused.json()["message"]) == (400, "container other is not valid for pod p")
        assert (await wire("GET", f"{PODS}/p/log")).status == 404

    with_asgi_client(scenario)
