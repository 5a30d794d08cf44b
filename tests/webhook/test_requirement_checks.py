"""Permissions and namespaces that a request needs, asked of the API server."""

from typing import cast

import pytest

from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.errors import BadRequest, Forbidden
from trimtab.webhook.kind_admission import KindAdmission
from trimtab.webhook.requirement_checks import NAMESPACES, RequirementChecks
from trimtab.webhook.review import Refused, Review
from webhook.webhook_helpers import Cluster, ReviewingClient, creation, run_in_cluster

OCM = "cluster.open-cluster-management.io"
CLUSTERS, BINDINGS = f"managedclusters.{OCM}", f"managedclustersetbindings.{OCM}"
WORKS = "manifestworks.work.open-cluster-management.io"
ALICE = {"user": "alice", "groups": ("system:authenticated",)}


def managed_cluster(name: str, *taints: Raw, **spec: object) -> Raw:
    return {
        "apiVersion": f"{OCM}/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": {f"{OCM}/clusterset": "dev"}},
        "spec": {"taints": list(taints), **spec},
    }


def cluster_role(*rules: Raw) -> list[Raw]:
    rbac = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": list(rules)}
    subject = {"apiGroup": rbac, "kind": "User", "name": "alice"}
    reference = {"apiGroup": rbac, "kind": "ClusterRole", "name": "r"}
    return [role, {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]} | {"rules": None}]


def rule(verb: str, resource: str, group: str = OCM) -> Raw:
    return {"verbs": [verb], "apiGroups": [group], "resources": [resource]}


async def fault_of(admission: KindAdmission, review: Review) -> Exception | None:
    try:
        await admission.validate(review)
    except Refused as refused:
        return refused.fault
    return None


def new_admission(cluster: Cluster) -> KindAdmission:
    return KindAdmission(
        cluster.cache, requirements=RequirementChecks(cast("Client", ReviewingClient(cluster))), clock=cluster.clock
    )


def test_permissions_are_asked_of_the_api_server() -> None:
    async def scenario(cluster: Cluster) -> None:
        admission = new_admission(cluster)
        old = managed_cluster("a")
        accepting = creation(CLUSTERS, managed_cluster("a", hubAcceptsClient=True), old=old, **ALICE)
        joining = creation(CLUSTERS, managed_cluster("a"), **ALICE)
        binding = {"metadata": {"name": "dev", "namespace": "d"}, "spec": {"clusterSet": "dev"}}
        bind = creation(BINDINGS, binding, **ALICE)
        for review in (accepting, joining, bind):
            assert isinstance(await fault_of(admission, review), Forbidden)
        grants = (rule("create", "managedclustersets/join"), rule("create", "managedclustersets/bind"))
        accept = rule("update", "managedclusters/accept", "register.open-cluster-management.io")
        role, role_binding = cluster_role(*grants, accept)
        await cluster.add(role, {key: value for key, value in role_binding.items() if key != "rules"})
        for review in (accepting, joining, bind):
            assert await fault_of(admission, review) is None

    run_in_cluster(scenario)


def test_cluster_with_a_terminating_namespace_is_not_accepted() -> None:
    async def scenario(cluster: Cluster) -> None:
        blocker = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "a"}}
        blocker["metadata"] = {"name": "x", "namespace": "a", "finalizers": ["a.io/b"]}
        await cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}, blocker)
        admission = new_admission(cluster)
        administrator = {"user": "admin", "groups": ("system:masters",)}
        accepting = creation(CLUSTERS, managed_cluster("a", hubAcceptsClient=True), **administrator)
        assert await fault_of(admission, accepting) is None
        await cluster.client.delete(NAMESPACES, "", "a")
        fault = await fault_of(admission, accepting)
        assert isinstance(fault, Forbidden)
        assert 'cluster namespace "a" is terminating' in str(fault)

    run_in_cluster(scenario)


def test_denials_of_ocm_kinds_have_code_400_before_the_schema_is_checked() -> None:
    async def scenario(cluster: Cluster) -> None:
        admission = new_admission(cluster)
        invalid = managed_cluster("a", managedClusterClientConfigs=[{"url": "127.0.0.1:8001"}])
        binding = {"metadata": {"name": "dev", "namespace": "d"}, "spec": {"clusterSet": "prod"}}
        for resource, obj in ((CLUSTERS, invalid), (BINDINGS, binding)):
            with pytest.raises(Refused) as refused:
                await admission.mutate(creation(resource, obj, **ALICE))
            assert isinstance(refused.value.fault, BadRequest)
        work = {"metadata": {"name": "w", "namespace": "a"}, "spec": {"workload": {"manifests": []}}}
        assert isinstance(await fault_of(admission, creation(WORKS, work, **ALICE)), BadRequest)

    run_in_cluster(scenario)


def test_taints_are_stamped_once_even_if_the_webhook_is_called_twice() -> None:
    async def scenario(cluster: Cluster) -> None:
        admission = new_admission(cluster)
        old, new = managed_cluster("a"), managed_cluster("a", {"key": "k", "effect": "NoSelect"})
        first = (await admission.mutate(creation(CLUSTERS, new, old=old, **ALICE))).object
        assert first is not None
        assert first["spec"]["taints"][0]["timeAdded"]
        second = (await admission.mutate(creation(CLUSTERS, first, old=old, **ALICE))).object
        assert second == first
        forged = managed_cluster("a", {"key": "k", "effect": "NoSelect", "timeAdded": "2020-01-01T00:00:00Z"})
        with pytest.raises(Refused):
            await admission.mutate(creation(CLUSTERS, forged, old=old, **ALICE))

    run_in_cluster(scenario)


def test_without_a_way_to_ask_nothing_that_needs_a_permission_is_admitted() -> None:
    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(RuntimeError, match="no permissions can be checked"):
            await KindAdmission(cluster.cache).validate(creation(CLUSTERS, managed_cluster("a"), **ALICE))

    run_in_cluster(scenario)
