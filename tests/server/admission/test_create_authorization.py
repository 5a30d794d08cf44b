"""An update or server-side apply that creates requires the verb `create`."""

import pytest

from server.asgi import AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, grant_cluster_rules, rule

APPLY = "application/apply-patch+yaml"
NAMESPACED = "/api/v1/namespaces/default"
CREATED_BY_APPLY = {
    f"{NAMESPACED}/configmaps": ("v1", "ConfigMap"),
    f"{NAMESPACED}/secrets": ("v1", "Secret"),
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    "/api/v1/namespaces": ("v1", "Namespace"),
    "/apis/policy.karmada.io/v1alpha1/namespaces/default/overridepolicies": (
        "policy.karmada.io/v1alpha1",
        "OverridePolicy",
    ),
}
CREATED_BY_UPDATE = {
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": ("coordination.k8s.io/v1", "Lease", {}),
    f"{NAMESPACED}/endpoints": ("v1", "Endpoints", {}),
    f"{NAMESPACED}/limitranges": ("v1", "LimitRange", {"spec": {"limits": []}}),
    "/api/v1/nodes": ("v1", "Node", {}),
    f"{NAMESPACED}/events": ("v1", "Event", {"involvedObject": {"namespace": "default"}}),
}
EVERY_GROUP = {"apiGroups": ["*"], "resources": ["*"]}


@pytest.mark.parametrize("path", CREATED_BY_APPLY)
def test_apply_of_an_absent_object_requires_create(path: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "patcher", {"verbs": ["get", "patch", "update", "list"], **EVERY_GROUP})
        version, kind = CREATED_BY_APPLY[path]
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": "new"}}
        for query in ("fieldManager=a", "fieldManager=a&dryRun=All", "fieldManager=a&force=true"):
            refused = await client("PATCH", f"{path}/new?{query}", body, user=ALICE, content_type=APPLY)
            assert refused.status == 403
            assert 'User "alice" cannot create resource' in refused.json()["message"]
        assert (await client("GET", f"{path}/new")).status == 404

    with_asgi_client(scenario)


@pytest.mark.parametrize("path", CREATED_BY_UPDATE)
def test_update_of_an_absent_object_requires_create(path: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "updater", {"verbs": ["get", "update", "patch"], **EVERY_GROUP})
        version, kind, further = CREATED_BY_UPDATE[path]
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": "new"}, **further}
        for query in ("", "?dryRun=All"):
            refused = await client("PUT", f"{path}/new{query}", body, user=ALICE)
            assert refused.status == 403
            assert 'User "alice" cannot create resource' in refused.json()["message"]
        assert (await client("GET", f"{path}/new")).status == 404
        made = await client("PUT", f"{path}/new", body)
        assert made.status == 201
        assert (await client("PUT", f"{path}/new", made.json(), user=ALICE)).status == 200

    with_asgi_client(scenario)


def test_who_may_create_and_patch_may_apply() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_rules(client, "applier", rule("patch create", "configmaps", resourceNames=["new"]))
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
        path = f"{NAMESPACED}/configmaps/new?fieldManager=a"
        assert (await client("PATCH", path, body, user=ALICE, content_type=APPLY)).status == 201
        assert (await client("PATCH", path, body, user=ALICE, content_type=APPLY)).status == 200

    with_asgi_client(scenario)
