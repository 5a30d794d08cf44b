"""Privilege escalation through roles is rejected."""

import pytest

from server.asgi import AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, RBAC, grant, role


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}, 201),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}, 403),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, 403),
    ],
)
def test_role_may_not_grant_more_than_its_author_may_do(rule: dict, status: int) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant(client, "ClusterRole", "view")
        roles = f"{RBAC}/namespaces/default/roles"
        keeper = role("keeper", {"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]})
        keeper["rules"][0]["verbs"] = ["create", "get"]
        await client("POST", roles, keeper)
        await grant(client, "Role", "keeper")
        assert (await client("POST", roles, role("new", rule), user=ALICE)).status == status

    with_asgi_client(scenario)
