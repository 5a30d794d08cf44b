"""Defaults and validations of upstream webhooks."""

import asyncio

import pytest

from server.asgi import AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, grant_cluster_rules, rule
from trimtab.api.kind import Kind, kind_of
from trimtab.api.kinds.ocm_clusters import ManagedCluster
from trimtab.api.kinds.policy import PropagationPolicy
from trimtab.api.kinds.taint_policy import ClusterTaintPolicy
from trimtab.api.value import Object
from trimtab.client.client import resource_of
from trimtab.errors import Forbidden
from trimtab.server.admission.chain import Attributes
from trimtab.server.admission.peer_webhooks import PROTECTED_LABEL, PeerWebhooks
from trimtab.server.auth.user import Caller
from trimtab.server.local import LocalClient
from trimtab.server.resources import ObjectPath, ServedResource

OCM = "/apis/cluster.open-cluster-management.io"
CLUSTERS, SETS = f"{OCM}/v1/managedclusters", f"{OCM}/v1beta2/managedclustersets"
SET_LABEL = "cluster.open-cluster-management.io/clusterset"
WORKS = "/apis/work.open-cluster-management.io/v1/namespaces/default/manifestworks"
MERGE = "application/merge-patch+json"


def attributes(kind: Kind, operation: str) -> Attributes:
    return Attributes(operation, ObjectPath(ServedResource(kind, kind.version, schema=dict), "default", "p"), Caller())


def test_new_policy_gets_a_permanent_id_and_a_finalizer() -> None:
    policy = {"metadata": {"name": "p", "namespace": "default", "finalizers": ["a.io/b"]}, "spec": {}}
    plugin = PeerWebhooks(lambda: "id-1")
    admitted = asyncio.run(plugin.mutate(attributes(kind_of(PropagationPolicy), "CREATE"), policy, None))
    assert admitted["metadata"]["labels"] == {"propagationpolicy.karmada.io/permanent-id": "id-1"}
    assert admitted["metadata"]["finalizers"] == ["a.io/b", "karmada.io/propagation-policy-controller"]
    updated = asyncio.run(plugin.mutate(attributes(kind_of(PropagationPolicy), "UPDATE"), policy, policy))
    assert "labels" not in updated["metadata"]


def test_protected_object_cannot_be_deleted() -> None:
    kind = Kind(Object, group="", version="v1", name="ConfigMap", plural="configmaps", custom=False)
    plugin = PeerWebhooks()
    free = {"metadata": {"name": "p", "labels": {PROTECTED_LABEL: "Never"}}}
    asyncio.run(plugin.validate(attributes(kind, "DELETE"), None, free))
    with pytest.raises(Forbidden, match="This resource is protected"):
        protected = {"metadata": {"name": "p", "labels": {PROTECTED_LABEL: "Always"}}}
        asyncio.run(plugin.validate(attributes(kind, "DELETE"), None, protected))


def test_invalid_policy_is_denied_in_the_words_of_the_webhook_unless_it_is_being_deleted() -> None:
    plugin, kind = PeerWebhooks(), kind_of(PropagationPolicy)
    spread = [{"spreadByField": "cluster", "minGroups": 3, "maxGroups": 1}]
    metadata = {"name": "p", "namespace": "default"}
    policy = {"metadata": metadata, "spec": {"placement": {"spreadConstraints": spread}}}
    with pytest.raises(Forbidden, match=r'admission webhook "propagationpolicy\.karmada\.io" denied the request: '):
        asyncio.run(plugin.validate(attributes(kind, "CREATE"), policy, None))
    deleted = {**policy, "metadata": {**metadata, "deletionTimestamp": "2030-01-01T00:00:00Z"}}
    asyncio.run(plugin.validate(attributes(kind, "UPDATE"), deleted, policy))


def test_taint_policies_that_evict_are_admitted_only_when_allowed() -> None:
    policy = {"metadata": {"name": "p"}, "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}
    where = attributes(kind_of(ClusterTaintPolicy), "CREATE")
    with pytest.raises(Forbidden, match="NoExecute"):
        asyncio.run(PeerWebhooks().validate(where, policy, None))
    asyncio.run(PeerWebhooks(allow_no_execute_taints=True).validate(where, policy, None))


def managed_cluster(name: str, *taints: dict, set_name: str = "default", accepted: bool = False) -> dict:
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": {SET_LABEL: set_name}},
        "spec": {"hubAcceptsClient": accepted, "taints": list(taints)},
    }


async def grant_cluster_writer(client: AsgiClient, *sets: str) -> None:
    """Alice may write clusters and put them into some sets."""
    group = "cluster.open-cluster-management.io"
    join = rule("create", "managedclustersets/join", group, resourceNames=list(sets))
    await grant_cluster_rules(client, "writer", rule("get create update patch", "managedclusters", group), join)


async def grant_accept(client: AsgiClient) -> None:
    accept = rule("update", "managedclusters/accept", "register.open-cluster-management.io")
    await grant_cluster_rules(client, "accept", accept)


def test_only_those_who_may_accept_clusters_can_accept_one() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_writer(client, "default")
        created = await client("POST", CLUSTERS, managed_cluster("a", accepted=True), user=ALICE)
        assert (created.status, created.json()["reason"]) == (403, "Forbidden")
        assert 'user "alice" cannot update the HubAcceptsClient field' in created.json()["message"]
        assert (await client("POST", CLUSTERS, managed_cluster("a"), user=ALICE)).status == 201
        accept = {"spec": {"hubAcceptsClient": True}}
        refused = await client("PATCH", f"{CLUSTERS}/a", accept, user=ALICE, content_type=MERGE)
        assert refused.status == 403
        await grant_accept(client)
        assert (await client("PATCH", f"{CLUSTERS}/a", accept, user=ALICE, content_type=MERGE)).status == 200
        relabel = {"metadata": {"labels": {"x": "y"}}}
        assert (await client("PATCH", f"{CLUSTERS}/a", relabel, user=ALICE, content_type=MERGE)).status == 200

    with_asgi_client(scenario, plugins=[PeerWebhooks()])


def test_cluster_in_deletion_cannot_be_accepted_without_the_permission() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_writer(client, "default")
        cluster = managed_cluster("a")
        cluster["metadata"]["finalizers"] = ["test"]
        created = await client("POST", CLUSTERS, cluster)
        assert (created.status, "prefer a domain-qualified" in created.headers["warning"]) == (201, True)
        assert (await client("DELETE", f"{CLUSTERS}/a")).status == 200
        accept = {"spec": {"hubAcceptsClient": True}}
        assert (await client("PATCH", f"{CLUSTERS}/a", accept, user=ALICE, content_type=MERGE)).status == 403

    with_asgi_client(scenario, plugins=[PeerWebhooks()])


def test_cluster_is_not_accepted_while_its_namespace_terminates() -> None:
    async def scenario(client: AsgiClient) -> None:
        for name in ("a", "b"):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            assert (await client("POST", "/api/v1/namespaces", namespace)).status == 201
            blocker = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "finalizers": ["a.io/b"]}}
            assert (await client("POST", f"/api/v1/namespaces/{name}/configmaps", blocker)).status == 201
        assert (await client("POST", CLUSTERS, managed_cluster("b"))).status == 201
        for name in ("a", "b"):
            assert (await client("DELETE", f"/api/v1/namespaces/{name}")).status == 200
        created = await client("POST", CLUSTERS, managed_cluster("a", accepted=True))
        assert created.status == 403
        assert 'cluster namespace "a" is terminating' in created.json()["message"]
        accept = {"spec": {"hubAcceptsClient": True}}
        assert (await client("PATCH", f"{CLUSTERS}/b", accept, content_type=MERGE)).status == 403
        assert (await client("POST", CLUSTERS, managed_cluster("c", accepted=True))).status == 201

    with_asgi_client(scenario, plugins=[PeerWebhooks()])


def test_cluster_moves_only_between_sets_that_the_user_may_join() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_writer(client, "default", "dev")
        assert (await client("POST", CLUSTERS, managed_cluster("a", set_name="prod"), user=ALICE)).status == 403
        assert (await client("POST", CLUSTERS, managed_cluster("a"), user=ALICE)).status == 201
        assert (await client("POST", CLUSTERS, managed_cluster("p", set_name="prod"))).status == 201
        for name, set_name, status in (("a", "prod", 403), ("p", "dev", 403), ("a", "dev", 200)):
            change = {"metadata": {"labels": {SET_LABEL: set_name}}}
            moved = await client("PATCH", f"{CLUSTERS}/{name}", change, user=ALICE, content_type=MERGE)
            assert moved.status == status

    with_asgi_client(scenario, plugins=[PeerWebhooks()])


def test_set_is_bound_only_by_those_who_may_bind_it() -> None:
    async def scenario(client: AsgiClient) -> None:
        group, path = (
            "cluster.open-cluster-management.io",
            f"{OCM}/v1beta2/namespaces/default/managedclustersetbindings",
        )
        await grant_cluster_rules(client, "binder", rule("create update", "managedclustersetbindings", group))
        binding = {"apiVersion": f"{group}/v1beta2", "kind": "ManagedClusterSetBinding", "metadata": {"name": "dev"}}
        refused = await client("POST", path, {**binding, "spec": {"clusterSet": "dev"}}, user=ALICE)
        assert refused.status == 403
        assert 'user "alice" is not allowed to bind cluster set "dev"' in refused.json()["message"]
        bind = rule("create", "managedclustersets/bind", group, resourceNames=["dev"])
        await grant_cluster_rules(client, "bind", bind)
        created = await client("POST", path, {**binding, "spec": {"clusterSet": "dev"}}, user=ALICE)
        assert created.status == 201
        changed = {**created.json(), "spec": {"clusterSet": "prod"}}
        denied = await client("PUT", f"{path}/dev", changed, user=ALICE)
        assert (denied.status, denied.json()["reason"]) == (400, "BadRequest")

    with_asgi_client(scenario, plugins=[PeerWebhooks()])


def test_denials_of_ocm_kinds_have_code_400() -> None:
    async def scenario(client: AsgiClient) -> None:
        cluster = managed_cluster("a")
        cluster["spec"]["managedClusterClientConfigs"] = [{"url": "127.0.0.1:8001"}]
        denied = await client("POST", CLUSTERS, cluster)
        assert (denied.status, denied.json()["reason"]) == (400, "BadRequest")
        assert denied.json()["message"] == (
            'admission webhook "managedclustervalidators.admission.cluster.open-cluster-management.io" denied the '
            'request: url "127.0.0.1:8001" is invalid in client configs'
        )
        work = {"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"}}
        assert (await client("POST", WORKS, {**work, "spec": {"workload": {"manifests": []}}})).status == 400

    with_asgi_client(scenario, plugins=[PeerWebhooks()])


def test_taints_are_stamped_and_their_times_cannot_be_chosen() -> None:
    async def scenario(client: AsgiClient) -> None:
        await grant_cluster_writer(client, "default")
        taint = {"key": "a", "effect": "NoSelect"}
        forged = {**taint, "timeAdded": "2020-01-01T00:00:00Z"}
        created = await client("POST", CLUSTERS, managed_cluster("a", forged), user=ALICE)
        (stamped,) = created.json()["spec"]["taints"]
        assert stamped["timeAdded"] != forged["timeAdded"]
        forging = {"spec": {"taints": [forged]}}
        denied = await client("PATCH", f"{CLUSTERS}/a", forging, user=ALICE, content_type=MERGE)
        assert denied.status == 400
        await asyncio.sleep(5)
        changed = {"spec": {"taints": [{**taint, "effect": "NoSelectIfNew"}]}}
        updated = await client("PATCH", f"{CLUSTERS}/a", changed, user=ALICE, content_type=MERGE)
        assert updated.json()["spec"]["taints"][0]["timeAdded"] > stamped["timeAdded"]
        by_administrator = await client("PATCH", f"{CLUSTERS}/a", forging, content_type=MERGE)
        assert by_administrator.json()["spec"]["taints"] == [forged]

    with_asgi_client(scenario, plugins=[PeerWebhooks()])


def test_control_plane_itself_may_set_the_times_of_taints() -> None:
    async def scenario(client: AsgiClient) -> None:
        kind = kind_of(ManagedCluster)
        early, unset = {"key": "a", "effect": "NoSelect", "timeAdded": "2020-01-01T00:00:00Z"}, {"key": "b"}
        cluster = managed_cluster("a", early, {**unset, "effect": "NoSelect"})
        created = await LocalClient(client.server).create(resource_of(kind), cluster, manager="m")
        kept, stamped = created["spec"]["taints"]
        assert kept == early
        assert stamped["timeAdded"] > early["timeAdded"]

    with_asgi_client(scenario, plugins=[PeerWebhooks()])


def test_plugin_without_a_server_has_no_time_for_taints() -> None:
    where = attributes(kind_of(ManagedCluster), "CREATE")
    with pytest.raises(RuntimeError, match="no clock"):
        asyncio.run(PeerWebhooks().mutate(where, managed_cluster("a"), None))
