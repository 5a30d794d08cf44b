"""Impersonation of users, groups, uids and extra values."""

import pytest

from server.asgi import AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, BINDINGS, cluster_binding, grant_cluster_rules, rule

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
USERS = rule("impersonate", "users")
GROUP = "authentication.k8s.io"


async def user_info(client: AsgiClient, user=ALICE, **headers: str) -> dict | int:
    """The user as which a request acts, or the status of its refusal."""
    response = await client("POST", REVIEWS, REVIEW, user=user, **headers)
    return response.json()["status"]["userInfo"] if response.status == 201 else response.status


@pytest.mark.parametrize(
    ("headers", "permission"),
    [
        ({}, None),
        ({"impersonate_uid": "1234"}, rule("impersonate", "uids", GROUP)),
        ({"impersonate_uid": "1234"}, rule("impersonate", "uids", GROUP, resourceNames=["1234"])),
        ({"impersonate_extra_scopes": "all"}, rule("impersonate", "userextras/scopes", GROUP, resourceNames=["all"])),
        ({"impersonate_extra_a%2fb": "all"}, rule("impersonate", "userextras/a/b", GROUP)),
        ({"impersonate_group": "devs"}, rule("impersonate", "groups", resourceNames=["devs"])),
    ],
)
def test_every_part_of_the_identity_must_be_allowed(headers: dict, permission: dict | None) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "users", USERS)
        if permission is not None:
            assert await user_info(client, impersonate_user="bob", **headers) == 403
            await grant_cluster_rules(client, "further", permission)
        info = await user_info(client, impersonate_user="bob", **headers)
        assert isinstance(info, dict)
        assert info["username"] == "bob"

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    "headers",
    [
        {"impersonate_uid": "9"},
        {"impersonate_extra_scopes": "other"},
        {"impersonate_extra_other": "all"},
        {"impersonate_group": "system:masters"},
    ],
)
def test_permission_for_one_value_is_not_one_for_another(headers: dict) -> None:
    async def scenario(client: AsgiClient) -> None:
        allowed = [
            rule("impersonate", "uids", GROUP, resourceNames=["1"]),
            rule("impersonate", "userextras/scopes", GROUP, resourceNames=["all"]),
            rule("impersonate", "groups", resourceNames=["devs"]),
        ]
        await grant_cluster_rules(client, "users", USERS, *allowed)
        assert await user_info(client, impersonate_user="bob", **headers) == 403

    with_asgi_client(scenario)


@pytest.mark.parametrize("header", ["impersonate_group", "impersonate_uid", "impersonate_extra_scopes"])
def test_identity_without_a_user_is_refused(header: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        assert await user_info(client, **{header: "x"}) == 400

    with_asgi_client(scenario)


def test_identity_has_the_groups_of_its_kind_of_user() -> None:
    async def scenario(client: AsgiClient) -> None:
        for name, groups in {
            "bob": ["system:authenticated"],
            "system:anonymous": ["system:unauthenticated"],
            "system:serviceaccount:a:b": ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"],
        }.items():
            info = await user_info(client, user=None, authorization="", impersonate_user=name)
            assert info == 403
            await client("POST", BINDINGS, cluster_binding(f"x{len(name)}", "system:basic-user", name))
            response = await client("POST", REVIEWS, REVIEW, impersonate_user=name)
            assert response.json()["status"]["userInfo"]["groups"] == groups

    with_asgi_client(scenario)


def test_service_accounts_are_allowed_by_namespace() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "accounts", rule("impersonate", "serviceaccounts", resourceNames=["b"]))
        assert isinstance(await user_info(client, impersonate_user="system:serviceaccount:a:b"), dict)
        assert await user_info(client, impersonate_user="system:serviceaccount:a:c") == 403
        assert await user_info(client, impersonate_user="system:serviceaccount::b") == 403
        assert await user_info(client, impersonate_user="bob") == 403

    with_asgi_client(scenario)
