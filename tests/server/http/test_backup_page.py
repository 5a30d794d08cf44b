"""`/backup` over HTTP: what is in it, and who gets it."""

import asyncio

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.store.backup import BackupReader

EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
ALL_PATHS = {"nonResourceURLs": ["*"], "verbs": ["*"]}
RULES = {
    "nothing": [],
    "every path": [ALL_PATHS],
    "reading": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}, ALL_PATHS],
    "one group": [{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}, ALL_PATHS],
    "named objects": [EVERYTHING | {"resourceNames": ["one"]}, ALL_PATHS],
    "no path": [EVERYTHING],
}


def test_administrator_gets_all_objects() -> None:
    async def scenario(client: AsgiClient) -> None:
        await asyncio.sleep(10)  # the server writes the status of its own kinds
        response = await client("GET", "/backup")
        assert response.status == 200
        reader = BackupReader()
        rows = reader.feed(response.body)
        header = reader.finish()
        store = client.server.store
        assert (header.revision, header.objects) == (store.revision, len(rows))
        assert {row.key: row.value for row in rows} == {one.key: one.value for one in store.list("/").entries}

    with_asgi_client(scenario)


@pytest.mark.parametrize("name", RULES)
def test_only_all_rights_are_enough(name: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        user = User("reader", (AUTHENTICATED,))
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        role = {"metadata": {"name": "test"}, "rules": RULES[name]}
        assert (await client("POST", f"{rbac}/clusterroles", role)).status == 201
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "test"}
        binding = {"metadata": {"name": "test"}, "roleRef": reference, "subjects": [subject]}
        assert (await client("POST", f"{rbac}/clusterrolebindings", binding)).status == 201
        assert (await client("GET", "/backup", user=user)).status == 403
        assert (await client("GET", "/backup", user=None)).status in (401, 403)
        await client("PUT", f"{rbac}/clusterroles/test", role | {"rules": [EVERYTHING, ALL_PATHS]})
        assert (await client("GET", "/backup", user=user)).status == 200

    with_asgi_client(scenario)


def test_other_methods_and_paths_are_refused() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", "/backup")).status == 405
        assert (await client("GET", "/backup/x")).status == 404

    with_asgi_client(scenario)
