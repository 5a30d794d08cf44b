"""Authentication with client certificates and tokens."""

import asyncio

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.auth.authenticate import user_of_certificate
from trimtab.server.auth.user import AUTHENTICATED, User


def test_certificate_gives_user_and_groups() -> None:
    subject = ((("organizationName", "devs"),), (("commonName", "alice"),))
    assert user_of_certificate({"subject": subject}) == User("alice", ("devs", AUTHENTICATED))
    assert user_of_certificate({}) is None


def test_invalid_token_is_rejected_even_for_public_paths() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("GET", "/readyz", user=None, authorization="Bearer nonsense")).status == 401

    with_asgi_client(scenario)


def test_service_account_token_is_valid_while_the_account_exists() -> None:
    async def scenario(client: AsgiClient) -> None:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await client("POST", accounts, {"metadata": {"name": "bot"}})
        request = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
        token = (await client("POST", f"{accounts}/bot/token", request)).json()["status"]["token"]
        review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        response = await client("POST", path, review, user=None, authorization=f"Bearer {token}")
        assert response.json()["status"]["userInfo"]["username"] == "system:serviceaccount:default:bot"
        await client("DELETE", f"{accounts}/bot")
        assert (await client("GET", "/version", user=None, authorization=f"Bearer {token}")).status == 401

    with_asgi_client(scenario)


def test_service_account_token_expires() -> None:
    async def scenario(client: AsgiClient) -> None:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await client("POST", accounts, {"metadata": {"name": "bot"}})
        request = {"spec": {"expirationSeconds": 600}}
        token = (await client("POST", f"{accounts}/bot/token", request)).json()["status"]["token"]
        await asyncio.sleep(601)
        assert (await client("GET", "/version", user=None, authorization=f"Bearer {token}")).status == 401

    with_asgi_client(scenario)
