"""Privilege escalation through roles and bindings is rejected."""

import orjson
import pytest

from server.asgi import AsgiClient, ReceivedResponse, with_asgi_client
from server.rbac_objects import (
    ALICE,
    BINDINGS,
    EVERYTHING,
    GROUP,
    RBAC,
    ROLES,
    aggregation,
    binding,
    cluster_binding,
    cluster_role,
    grant,
    grant_cluster_rules,
    role,
    rule,
)

CONFIG_READER = rule("get", "configmaps")
SECRET_READER = rule("get", "secrets")
ROLE_WRITER = rule("get list create update patch delete deletecollection", "clusterroles roles", GROUP)
BINDING_WRITER = rule("get create update patch", "clusterrolebindings rolebindings", GROUP)
NAMESPACED = f"{RBAC}/namespaces/default"
PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
AGGREGATE_LABEL = f"{GROUP}/aggregate-to-admin"


async def patch_as_alice(client: AsgiClient, media: str, path: str, change: dict) -> ReceivedResponse:
    """Send a change of top-level members or of labels as a patch of one kind."""
    body: object = change
    if media == "json":
        body = [{"op": "add", "path": f"/{key}", "value": value} for key, value in change.items() if key != "metadata"]
        body += [
            {"op": "add", "path": f"/metadata/labels/{key.replace('/', '~1')}", "value": value}
            for key, value in change.get("metadata", {}).get("labels", {}).items()
        ]
    elif media == "apply":
        body = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", **change}
        path += "?fieldManager=alice&force=true"
    return await client("PATCH", path, orjson.dumps(body), user=ALICE, content_type=PATCHES[media])


async def may_read_secrets(client: AsgiClient) -> bool:
    return (await client("GET", "/api/v1/namespaces/default/secrets/x", user=ALICE)).status == 404


@pytest.mark.parametrize(
    ("granted", "status"),
    [
        (CONFIG_READER, 201),
        (SECRET_READER, 403),
        (rule("get", "secrets", resourceNames=["one"]), 403),
        (rule("get", "configmaps", resourceNames=["one"]), 201),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, 403),
    ],
)
def test_role_may_not_grant_more_than_its_author_may_do(granted: dict, status: int) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant(client, "ClusterRole", "view")
        roles = f"{RBAC}/namespaces/default/roles"
        await client("POST", roles, role("keeper", rule("create get", "roles", GROUP)))
        await grant(client, "Role", "keeper")
        assert (await client("POST", roles, role("new", granted), user=ALICE)).status == status

    with_asgi_client(scenario)


@pytest.mark.parametrize("name", ["admin", "edit", "view"])
def test_binding_checks_the_aggregated_rules(name: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "binder", BINDING_WRITER, CONFIG_READER)
        for path, wanted in (
            (BINDINGS, cluster_binding("self", name, "alice")),
            (f"{NAMESPACED}/rolebindings", binding("self", "ClusterRole", name, "alice")),
        ):
            refused = await client("POST", path, wanted, user=ALICE)
            assert refused.status == 403
            assert "is attempting to grant RBAC permissions not currently held" in refused.json()["message"]
            assert (await client("POST", f"{path}?dryRun=All", wanted, user=ALICE)).status == 403
        assert not await may_read_secrets(client)

    with_asgi_client(scenario)


def test_who_holds_the_aggregated_rules_may_bind_them() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant(client, "ClusterRole", "admin")
        path = f"{NAMESPACED}/rolebindings"
        assert (await client("POST", path, binding("bob", "ClusterRole", "admin", "bob"), user=ALICE)).status == 201
        assert (await client("POST", path, binding("b", "ClusterRole", "cluster-admin", "b"), user=ALICE)).status == 403

    with_asgi_client(scenario)


@pytest.mark.parametrize("selects", [{AGGREGATE_LABEL: "true"}, {"matches": "nothing"}, {}])
def test_setting_an_aggregation_rule_requires_everything(selects: dict) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "writer", ROLE_WRITER, CONFIG_READER)
        wanted = cluster_role("mine", selects=selects)
        assert (await client("POST", ROLES, wanted, user=ALICE)).status == 403
        assert (await client("POST", f"{ROLES}?dryRun=All", wanted, user=ALICE)).status == 403
        applied = f"{ROLES}/mine?fieldManager=alice"
        apply = PATCHES["apply"]
        assert (await client("PATCH", applied, wanted, user=ALICE, content_type=apply)).status == 403
        assert (await client("POST", ROLES, cluster_role("mine", CONFIG_READER), user=ALICE)).status == 201
        assert (await client("PUT", f"{ROLES}/mine", wanted, user=ALICE)).status == 403

    with_asgi_client(scenario)


@pytest.mark.parametrize("media", PATCHES)
def test_no_patch_adds_an_aggregation_rule_to_a_held_role(media: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "writer", ROLE_WRITER)
        change = {"aggregationRule": aggregation({AGGREGATE_LABEL: "true"})}
        assert (await patch_as_alice(client, media, f"{ROLES}/writer", change)).status == 403
        assert not await may_read_secrets(client)

    with_asgi_client(scenario)


@pytest.mark.parametrize("media", PATCHES)
def test_no_patch_labels_a_powerful_role_into_a_held_aggregate(media: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "writer", ROLE_WRITER)
        await client("POST", ROLES, cluster_role("powerful", SECRET_READER, labels={"team": "core"}))
        await client("POST", ROLES, cluster_role("held", selects={"into": "held"}))
        await client("POST", BINDINGS, cluster_binding("alice-held", "held", "alice"))
        change = {"metadata": {"labels": {"into": "held"}}}
        assert (await patch_as_alice(client, media, f"{ROLES}/powerful", change)).status == 403
        stored = (await client("GET", f"{ROLES}/powerful")).json()
        stored["metadata"]["labels"] |= {"into": "held"}
        assert (await client("PUT", f"{ROLES}/powerful", stored, user=ALICE)).status == 403
        assert not await may_read_secrets(client)

    with_asgi_client(scenario)


def test_removing_a_label_does_not_bring_a_powerful_role_into_a_held_aggregate() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "writer", ROLE_WRITER)
        await client("POST", ROLES, cluster_role("powerful", SECRET_READER, labels={"private": "yes"}))
        absent = {
            "matchExpressions": [
                {"key": key, "operator": "DoesNotExist"} for key in ("private", "kubernetes.io/bootstrapping")
            ]
        }
        held = {**cluster_role("held"), "aggregationRule": {"clusterRoleSelectors": [absent]}}
        assert (await client("POST", ROLES, held)).status == 201
        await client("POST", BINDINGS, cluster_binding("alice-held", "held", "alice"))
        body = orjson.dumps({"metadata": {"labels": {"private": None}}})
        refused = await client("PATCH", f"{ROLES}/powerful", body, user=ALICE, content_type=PATCHES["merge"])
        assert refused.status == 403
        assert not await may_read_secrets(client)

    with_asgi_client(scenario)


def test_role_written_after_a_deletion_is_checked_like_a_new_one() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "writer", ROLE_WRITER)
        for wanted in (cluster_role("writer", SECRET_READER), cluster_role("writer", selects={})):
            await client("DELETE", f"{ROLES}/writer", user=ALICE)
            assert (await client("POST", ROLES, wanted, user=ALICE)).status == 403
            await client("POST", ROLES, cluster_role("writer", ROLE_WRITER))
        gone = await client("DELETE", f"{ROLES}?fieldSelector=metadata.name=writer", user=ALICE)
        assert gone.status == 200
        assert (await client("POST", ROLES, cluster_role("writer", *EVERYTHING), user=ALICE)).status == 403

    with_asgi_client(scenario)


def test_aggregation_is_transitive_for_access_and_for_binding() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "binder", BINDING_WRITER)
        await client("POST", ROLES, cluster_role("leaf", SECRET_READER, labels={"to": "middle"}))
        await client("POST", ROLES, cluster_role("middle", labels={"to": "top"}, selects={"to": "middle"}))
        await client("POST", ROLES, cluster_role("top", labels={"to": "middle"}, selects={"to": "top"}))
        assert (await client("POST", BINDINGS, cluster_binding("x", "top", "alice"), user=ALICE)).status == 403
        assert (await client("POST", BINDINGS, cluster_binding("x", "top", "alice"))).status == 201
        assert await may_read_secrets(client)

    with_asgi_client(scenario)


def test_role_whose_rules_its_writer_does_not_hold_cannot_be_changed_at_all() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "writer", ROLE_WRITER)
        await client("POST", ROLES, cluster_role("powerful", SECRET_READER))
        change = {"metadata": {"annotations": {"a": "b"}}}
        assert (await patch_as_alice(client, "merge", f"{ROLES}/powerful", change)).status == 403
        assert (await patch_as_alice(client, "merge", f"{ROLES}/view", change)).status == 403

    with_asgi_client(scenario)


def test_finalizers_and_owners_of_any_role_may_be_changed() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "writer", ROLE_WRITER, BINDING_WRITER)
        await client("POST", BINDINGS, cluster_binding("powerful", "cluster-admin", "bob"))
        change = {"metadata": {"finalizers": ["example.com/wait"]}}
        assert (await patch_as_alice(client, "merge", f"{ROLES}/view", change)).status == 200
        assert (await patch_as_alice(client, "merge", f"{BINDINGS}/powerful", change)).status == 200
        assert (await patch_as_alice(client, "merge", f"{BINDINGS}/powerful", {"subjects": None})).status == 403

    with_asgi_client(scenario)


def test_escalate_allows_what_the_writer_does_not_hold() -> None:
    async def scenario(client: AsgiClient) -> None:
        escalate = rule("escalate", "clusterroles", GROUP, resourceNames=["mine"])
        await grant_cluster_rules(client, "writer", ROLE_WRITER, escalate)
        assert (await client("POST", ROLES, cluster_role("mine", SECRET_READER), user=ALICE)).status == 201
        assert (await client("POST", ROLES, cluster_role("other", SECRET_READER), user=ALICE)).status == 403
        wanted = cluster_role("mine", selects={AGGREGATE_LABEL: "true"})
        assert (await client("PUT", f"{ROLES}/mine", wanted, user=ALICE)).status == 200

    with_asgi_client(scenario)


def test_escalate_on_one_role_does_not_reach_the_aggregates_that_select_it() -> None:
    async def scenario(client: AsgiClient) -> None:
        escalate = rule("escalate", "clusterroles", GROUP, resourceNames=["mine"])
        await grant_cluster_rules(client, "writer", ROLE_WRITER, escalate, CONFIG_READER)
        await client("POST", ROLES, cluster_role("mine", SECRET_READER))
        await client("POST", ROLES, cluster_role("top", labels={}, selects={"into": "top"}))
        change = {"metadata": {"labels": {"into": "top"}}}
        refused = await patch_as_alice(client, "merge", f"{ROLES}/mine", change)
        assert refused.status == 403
        assert 'through the aggregating ClusterRole "top"' in refused.json()["message"]
        further = rule("escalate", "clusterroles", GROUP, resourceNames=["top"])
        await grant_cluster_rules(client, "further", further)
        assert (await patch_as_alice(client, "merge", f"{ROLES}/mine", change)).status == 200

    with_asgi_client(scenario)


@pytest.mark.parametrize(("kind", "resource"), [("ClusterRole", "clusterroles"), ("Role", "roles")])
def test_binding_a_missing_role_requires_bind(kind: str, resource: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "binder", BINDING_WRITER)
        path, wanted = f"{NAMESPACED}/rolebindings", binding("b", kind, "absent", "alice")
        refused = await client("POST", path, wanted, user=ALICE)
        assert (refused.status, refused.json()["message"]) == (404, f'{resource}.{GROUP} "absent" not found')
        await grant_cluster_rules(client, "bind", rule("bind", resource, GROUP, resourceNames=["absent"]))
        assert (await client("POST", path, wanted, user=ALICE)).status == 201

    with_asgi_client(scenario)


def test_administrator_may_bind_a_missing_role() -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", BINDINGS, cluster_binding("b", "absent", "alice"))).status == 201

    with_asgi_client(scenario)


def test_rules_of_a_namespaced_binding_do_not_count_in_the_cluster() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "writer", ROLE_WRITER, BINDING_WRITER)
        await grant(client, "ClusterRole", "admin")
        assert (await client("POST", ROLES, cluster_role("c", SECRET_READER), user=ALICE)).status == 403
        assert (await client("POST", f"{NAMESPACED}/roles", role("r", SECRET_READER), user=ALICE)).status == 201
        elsewhere = f"{RBAC}/namespaces/kube-system/roles"
        assert (await client("POST", elsewhere, role("r", SECRET_READER), user=ALICE)).status == 403

    with_asgi_client(scenario)


def test_rule_with_too_many_combinations_is_refused_before_they_are_checked() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "writer", ROLE_WRITER)
        names = [f"n{i}" for i in range(400)]
        huge = {"verbs": names, "apiGroups": names, "resources": names, "resourceNames": names}
        refused = await client("POST", ROLES, cluster_role("huge", huge), user=ALICE)
        assert refused.status == 403
        assert len(refused.body) < 20_000
        assert (await client("POST", ROLES, cluster_role("huge", huge))).status == 201
        assert (await client("POST", BINDINGS, cluster_binding("huge", "huge", "alice"))).status == 201
        assert (await client("POST", ROLES, cluster_role("again", huge), user=ALICE)).status == 201

    with_asgi_client(scenario)
