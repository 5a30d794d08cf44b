"""Role-based access control."""

import asyncio

import orjson
import pytest

from server.asgi import AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, CONFIG_MAPS, GROUP, RBAC, binding, cluster_role, grant, role, rule
from trimtab.server.auth.authorize import Action, Authorizer, rule_allows
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.store.keys import object_key
from trimtab.store.store import Store
from trimtab.store.txn import PutKey


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


def test_role_of_another_namespace_with_the_same_name_grants_nothing() -> None:
    async def scenario(client: AsgiClient) -> None:
        await client("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": "shop"}})
        for namespace, resource in (("default", "secrets"), ("shop", "configmaps")):
            path = f"{RBAC}/namespaces/{namespace}/roles"
            assert (await client("POST", path, role("reader", rule("list", resource)))).status == 201
        path = f"{RBAC}/namespaces/shop/rolebindings"
        assert (await client("POST", path, binding("alice", "Role", "reader", "alice"))).status == 201
        assert (await client("GET", "/api/v1/namespaces/shop/configmaps", user=ALICE)).status == 200
        assert (await client("GET", "/api/v1/namespaces/shop/secrets", user=ALICE)).status == 403
        assert (await client("GET", CONFIG_MAPS, user=ALICE)).status == 403
        assert (await client("GET", "/api/v1/namespaces/default/secrets", user=ALICE)).status == 403

    with_asgi_client(scenario)


GET_SECRET = Action("get", "", "secrets", "", "default", "a")
READ_SECRETS = rule("get list", "secrets")


@pytest.mark.parametrize(
    ("action", "allowed"),
    [
        (GET_SECRET, True),
        (GET_SECRET._replace(verb="delete"), False),
        (GET_SECRET._replace(group="apps"), False),
        (GET_SECRET._replace(resource="configmaps"), False),
        (GET_SECRET._replace(subresource="status"), False),
        (Action("get", path="/metrics"), False),
    ],
)
def test_rule_allows_its_verbs_groups_and_resources_without_their_subresources(action: Action, allowed: bool) -> None:
    assert rule_allows(READ_SECRETS, action) is allowed


def test_rule_with_resource_names_allows_only_these_objects() -> None:
    named = {**READ_SECRETS, "resourceNames": ["a"]}
    assert rule_allows(named, GET_SECRET)
    assert not rule_allows(named, GET_SECRET._replace(name="b"))
    assert not rule_allows(named, GET_SECRET._replace(verb="list", name=""))


def test_service_account_without_a_namespace_is_that_of_the_binding_and_nobody_in_the_whole_cluster() -> None:
    """The server refuses such a subject, but one may be stored from before."""
    stored = {
        **binding("robot", "ClusterRole", "reader", ""),
        "subjects": [{"kind": "ServiceAccount", "name": "robot"}],
    }
    read = Action("list", "", "configmaps", namespace="shop")

    async def readers(bindings: str, namespace: str) -> list[str]:
        store = Store()
        await store.create(object_key(GROUP, "clusterroles", "", "reader"), role_bytes)
        await store.create(object_key(GROUP, bindings, namespace, "robot"), orjson.dumps(stored))
        users = ("system:serviceaccount:shop:robot", "system:serviceaccount::robot")
        return [name for name in users if Authorizer(store).allows(User(name, (AUTHENTICATED,)), read)]

    role_bytes = orjson.dumps(cluster_role("reader", rule("list", "configmaps")))
    assert asyncio.run(readers("rolebindings", "shop")) == ["system:serviceaccount:shop:robot"]
    assert asyncio.run(readers("clusterrolebindings", "")) == []


def test_binding_to_a_service_account_is_for_that_of_its_namespace() -> None:
    async def scenario(client: AsgiClient) -> None:
        subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "shop"}
        body = {**binding("robot", "ClusterRole", "view", ""), "subjects": [subject]}
        assert (await client("POST", f"{RBAC}/namespaces/default/rolebindings", body)).status == 201
        for namespace, status in (("shop", 200), ("default", 403)):
            user = User(f"system:serviceaccount:{namespace}:robot", (AUTHENTICATED,))
            assert (await client("GET", CONFIG_MAPS, user=user)).status == status

    with_asgi_client(scenario)


def test_change_of_a_role_does_not_cost_the_decoding_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    loads = orjson.loads

    def noting(value: bytes) -> object:
        decoded.append(value)
        return loads(value)

    async def scenario(client: AsgiClient) -> None:
        await grant(client, "ClusterRole", "view")
        assert (await client("GET", CONFIG_MAPS, user=ALICE)).status == 200
        monkeypatch.setattr("trimtab.store.decoded_entries.orjson.loads", noting)
        assert (await client("POST", f"{RBAC}/clusterroles", cluster_role("other"))).status == 201
        decoded.clear()
        assert (await client("GET", CONFIG_MAPS, user=ALICE)).status == 200
        monkeypatch.undo()

    with_asgi_client(scenario)
    assert [loads(value)["metadata"]["name"] for value in decoded if b'"rules"' in value] == ["other"]


def test_role_that_is_bound_several_times_grants_its_rules_once() -> None:
    async def scenario(client: AsgiClient) -> None:
        for number in range(3):
            body = binding(f"b{number}", "ClusterRole", "view", "alice")
            assert (await client("POST", f"{RBAC}/namespaces/default/rolebindings", body)).status == 201
        authorizer = client.server.authorizer
        rules = list(authorizer.rules_for(ALICE, "default"))
        view = authorizer.rules_of({"kind": "ClusterRole", "name": "view"}, "default")
        assert view
        assert [one for one in rules if one in view] == list(view)

    with_asgi_client(scenario)


def test_a_rule_for_paths_allows_nothing_on_resources() -> None:
    rule = {"verbs": ["get"], "nonResourceURLs": ["*"]}
    assert rule_allows(rule, Action("head", path="/healthz"))
    for verb in ("get", "head"):
        assert not rule_allows(rule, Action(verb, "", "secrets", namespace="default"))


def test_rules_that_a_cluster_role_loses_are_revoked_when_it_changes() -> None:
    async def scenario() -> None:
        store = Store()
        authorizer = Authorizer(store)
        bob, action = User("bob"), Action("get", "", "secrets", namespace="default")
        key = object_key(GROUP, "clusterroles", "", "reader")
        bound = {
            "metadata": {"name": "bob"},
            "roleRef": {"kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "User", "name": "bob"}],
        }
        await store.create(object_key(GROUP, "clusterrolebindings", "", "bob"), orjson.dumps(bound))
        for resources, allowed in ((["secrets"], True), (["pods"], False)):
            rules = [{"verbs": ["get"], "apiGroups": [""], "resources": resources}]
            await store.commit([PutKey(key, orjson.dumps({"metadata": {"name": "reader"}, "rules": rules}))])
            authorizer.invalidate()
            assert authorizer.allows(bob, action) is allowed

    asyncio.run(scenario())


def test_a_path_without_a_star_allows_that_path_alone() -> None:
    rule = {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/debug/*"]}
    for path, allowed in (("/metrics", True), ("/metrics/slis", False), ("/metric", False), ("/debug/pprof", True)):
        assert rule_allows(rule, Action("get", path=path)) is allowed, path
