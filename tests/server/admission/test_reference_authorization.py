"""Whoever writes a reference that the server follows must hold the right on what it refers to."""

from typing import Any

import pytest

from server.asgi import AsgiClient, with_asgi_client
from server.rbac_objects import ALICE, BINDINGS, ROLES, cluster_binding, cluster_role, rule

KARMADA, OCM, ADMISSION = "cluster.karmada.io", "cluster.open-cluster-management.io", "admissionregistration.k8s.io"
CLUSTERS = f"/apis/{KARMADA}/v1alpha1/clusters"
MANAGED = f"/apis/{OCM}/v1/managedclusters"
SET_BINDINGS = f"/apis/{OCM}/v1beta2/namespaces/default/managedclustersetbindings"
POLICIES = f"/apis/{ADMISSION}/v1/validatingadmissionpolicies"
POLICY_BINDINGS = f"/apis/{ADMISSION}/v1/validatingadmissionpolicybindings"
MERGE = {"content_type": "application/merge-patch+json"}
WRITE = "create update patch"


async def allow(client: AsgiClient, *rules: dict[str, Any]) -> None:
    assert (await client("POST", ROLES, cluster_role("r", *rules))).status == 201
    assert (await client("POST", BINDINGS, cluster_binding("r", "r", "alice"))).status == 201


def cluster(**spec: Any) -> dict[str, Any]:
    spec = {"syncMode": "Push", "apiEndpoint": "https://evil.example", **spec}
    return {"apiVersion": f"{KARMADA}/v1alpha1", "kind": "Cluster", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize("field", ["secretRef", "impersonatorSecretRef"])
def test_a_cluster_names_only_secrets_that_its_author_may_read(field: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        readable = rule("get", "secrets", resourceNames=["own"])
        await allow(client, rule(WRITE, "clusters", KARMADA), readable)
        body = cluster(**{field: {"namespace": "karmada-cluster", "name": "member1"}})
        refused = await client("POST", CLUSTERS, body, user=ALICE)
        assert refused.status == 403
        assert 'cannot get resource "secrets"' in refused.json()["message"]
        own = cluster(**{field: {"namespace": "karmada-cluster", "name": "own"}})
        assert (await client("POST", CLUSTERS, own, user=ALICE)).status == 201
        later = {"spec": {field: {"namespace": "karmada-cluster", "name": "member1"}}}
        assert (await client("PATCH", f"{CLUSTERS}/a", later, user=ALICE, **MERGE)).status == 403

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    "change",
    [{"apiEndpoint": "https://other.example"}, {"proxyURL": "http://proxy"}, {"insecureSkipTLSVerification": True}],
)
def test_the_token_of_a_cluster_is_not_sent_elsewhere_by_who_may_not_read_it(change: dict[str, Any]) -> None:
    async def scenario(client: AsgiClient) -> None:
        await allow(client, rule(WRITE, "clusters", KARMADA))
        await client("POST", CLUSTERS, cluster(secretRef={"namespace": "n", "name": "s"}))
        assert (await client("PATCH", f"{CLUSTERS}/a", {"spec": change}, user=ALICE, **MERGE)).status == 403
        other = {"metadata": {"labels": {"a": "b"}}}
        assert (await client("PATCH", f"{CLUSTERS}/a", other, user=ALICE, **MERGE)).status == 200

    with_asgi_client(scenario)


def test_binding_a_cluster_set_needs_the_right_to_bind_it() -> None:
    async def scenario(client: AsgiClient) -> None:
        bindable = rule("create", "managedclustersets/bind", OCM, resourceNames=["dev"])
        await allow(client, rule(WRITE, "managedclustersetbindings", OCM), bindable)
        statuses = []
        for name in ("prod", "dev"):
            body = {"apiVersion": f"{OCM}/v1beta2", "kind": "ManagedClusterSetBinding", "metadata": {"name": name}}
            statuses.append(
                (await client("POST", SET_BINDINGS, {**body, "spec": {"clusterSet": name}}, user=ALICE)).status
            )
        assert statuses == [403, 201]

    with_asgi_client(scenario)


def test_accepting_a_managed_cluster_and_moving_it_to_a_set_are_rights_of_their_own() -> None:
    async def scenario(client: AsgiClient) -> None:
        joinable = rule("create", "managedclustersets/join", OCM, resourceNames=["dev"])
        await allow(client, rule(WRITE, "managedclusters", OCM), joinable)
        body: dict[str, Any] = {
            "apiVersion": f"{OCM}/v1",
            "kind": "ManagedCluster",
            "metadata": {"name": "a"},
            "spec": {},
        }
        accepted = {**body, "spec": {"hubAcceptsClient": True}}
        assert (await client("POST", MANAGED, accepted, user=ALICE)).status == 403
        assert (await client("POST", MANAGED, body, user=ALICE)).status == 201
        for name, status in (("prod", 403), ("dev", 200)):
            labels = {"metadata": {"labels": {f"{OCM}/clusterset": name}}}
            assert (await client("PATCH", f"{MANAGED}/a", labels, user=ALICE, **MERGE)).status == status
        assert (await client("PATCH", f"{MANAGED}/a", accepted, user=ALICE, **MERGE)).status == 403

    with_asgi_client(scenario)


def policy(**spec: Any) -> dict[str, Any]:
    constraints = {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    }
    spec = {"matchConstraints": constraints, "validations": [{"expression": "true"}], **spec}
    return {
        "apiVersion": f"{ADMISSION}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": spec,
    }


def policy_binding(**reference: Any) -> dict[str, Any]:
    spec = {
        "policyName": "p",
        "validationActions": ["Deny"],
        "paramRef": {"parameterNotFoundAction": "Deny", **reference},
    }
    return {
        "apiVersion": f"{ADMISSION}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        ([], 422),
        ([rule("get", "secrets", resourceNames=["a"])], 422),
        ([rule("list", "secrets")], 422),
        ([rule("get", "secrets")], 201),
    ],
)
def test_a_policy_has_only_parameters_that_its_author_may_read(rules: list[dict[str, Any]], status: int) -> None:
    async def scenario(client: AsgiClient) -> None:
        await allow(client, rule(WRITE, "validatingadmissionpolicies", ADMISSION), *rules)
        body = policy(paramKind={"apiVersion": "v1", "kind": "Secret"})
        answer = await client("POST", POLICIES, body, user=ALICE)
        assert answer.status == status, answer.body
        if status == 422:
            assert "spec.paramKind: Forbidden" in answer.json()["message"]

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    ("reference", "status"),
    [
        ({"name": "a", "namespace": "default"}, 201),
        ({"name": "b", "namespace": "default"}, 422),
        ({"name": "a"}, 422),
        ({"selector": {}, "namespace": "default"}, 422),
    ],
)
def test_a_policy_binding_names_only_parameters_that_its_author_may_read(
    reference: dict[str, Any], status: int
) -> None:
    async def scenario(client: AsgiClient) -> None:
        await allow(client, rule(WRITE, "validatingadmissionpolicybindings", ADMISSION))
        path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        role = {"metadata": {"name": "s"}, "rules": [rule("get", "secrets", resourceNames=["a"])]}
        await client("POST", f"{path}/roles", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", **role})
        bound = cluster_binding("s", "s", "alice") | {"kind": "RoleBinding"}
        bound["roleRef"] |= {"kind": "Role"}
        assert (await client("POST", f"{path}/rolebindings", bound)).status == 201
        await client("POST", POLICIES, policy(paramKind={"apiVersion": "v1", "kind": "Secret"}))
        answer = await client("POST", POLICY_BINDINGS, policy_binding(**reference), user=ALICE)
        assert answer.status == status, answer.body

    with_asgi_client(scenario)
