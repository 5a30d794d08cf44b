"""The access of a pull agent to its control plane: an identity with few rights, for one cluster.

`trimtab join-command` creates the Cluster and the roles of its agent on the host, and prints a token that is valid for an hour and
good for one thing: to request a client certificate of the user `trimtab:agent:CLUSTER`. The control plane approves the request
(`agent_approval.py`), and the agent renews the certificate by itself (`agent_credentials.py`). Where an API server signs no
client certificates, `trimtab join-command --tokens` prints a token of a service account instead, which the agent exchanges.

The agent may read the clusters and the rules of users, write the Works and the status of its own cluster, and renew its own
Lease and credentials. It reads no Secrets of the host and no Works of other clusters.
"""

from collections.abc import Iterator
from contextlib import suppress

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.names import label_faults
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.controllers.well_known import execution_namespace
from trimtab.errors import AlreadyExists, InputError, NotFound
from trimtab.members.join import (
    CLUSTER_NAMESPACE,
    SERVICE_ACCOUNTS,
    SYSTEM_LABELS,
    ClusterFacts,
    request_token,
)
from trimtab.runtime.control_plane_identity import NAMESPACES
from trimtab.runtime.leader_election import LEASES

_RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ROLES = Resource(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
BOOTSTRAP_SECONDS = 3600
LIFETIME_SECONDS = 30 * 24 * 3600
"""The lifetime of the credentials that an agent asks for."""
AGENT_GROUP, AGENT_PREFIX = "trimtab:agents", "trimtab:agent:"
_READ = ["get", "list", "watch"]


def account_of(cluster: str) -> str:
    """The service account of an agent that authenticates with tokens; also the name of the roles of every agent."""
    return f"trimtab-agent-{cluster}"


def bootstrap_account_of(cluster: str) -> str:
    """The service account that may do nothing but request the first certificate of the agent."""
    return f"trimtab-bootstrap-{cluster}"


def user_of(cluster: str) -> str:
    """The user in the certificate of an agent."""
    return AGENT_PREFIX + cluster


def namespaced_kinds(cluster: str) -> dict[str, str]:
    """The kinds that the agent of a cluster may read in one namespace only."""
    return {
        "works.work.karmada.io": execution_namespace(cluster),
        "leases.coordination.k8s.io": CLUSTER_NAMESPACE,
    }


REQUEST_CERTIFICATES: Raw = {
    "apiGroups": ["certificates.k8s.io"],
    "resources": ["certificatesigningrequests"],
    "verbs": ["create", "get"],
}


def agent_roles(cluster: str) -> Iterator[tuple[Resource, Resource, str, list[Raw]]]:
    """(kind of role, kind of binding, namespace, rules) of everything that an agent may do on the host."""
    account = account_of(cluster)
    everywhere: list[Raw] = [
        {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": _READ},
        {
            "apiGroups": ["cluster.karmada.io"],
            "resources": ["clusters/status"],
            "resourceNames": [cluster],
            "verbs": ["get", "update", "patch"],
        },
        {
            "apiGroups": ["config.karmada.io"],
            "resources": ["resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"],
            "verbs": _READ,
        },
        {
            "apiGroups": ["cluster.open-cluster-management.io"],
            "resources": [
                "addonplacementscores",
                "managedclusters",
                "managedclustersetbindings",
                "managedclustersets",
                "placementdecisions",
            ],
            "verbs": _READ,
        },
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": _READ},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        REQUEST_CERTIFICATES,
    ]
    works: list[Raw] = [
        {"apiGroups": ["work.karmada.io"], "resources": ["works"], "verbs": [*_READ, "update", "patch"]},
        {"apiGroups": ["work.karmada.io"], "resources": ["works/status"], "verbs": ["get", "update", "patch"]},
    ]
    own: list[Raw] = [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _READ},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [cluster],
            "verbs": ["update", "patch"],
        },
        {
            "apiGroups": [""],
            "resources": ["serviceaccounts/token"],
            "resourceNames": [account],
            "verbs": ["create"],
        },
        # With its certificate, the agent needs no account any more.
        {
            "apiGroups": [""],
            "resources": ["serviceaccounts"],
            "resourceNames": [bootstrap_account_of(cluster), account],
            "verbs": ["delete"],
        },
    ]
    yield CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, "", everywhere
    yield ROLES, ROLE_BINDINGS, execution_namespace(cluster), works
    yield ROLES, ROLE_BINDINGS, CLUSTER_NAMESPACE, own


async def prepare_agent(
    host: Client, cluster: str, facts: ClusterFacts, seconds: int = BOOTSTRAP_SECONDS, *, tokens: bool = False
) -> str:
    """Register a Pull cluster with the rights of its agent; returns the token with which the agent starts.

    With `tokens`, that is a token of the agent's own account; else it only requests a certificate.
    """
    if faults := label_faults(cluster):
        raise InputError(f"{cluster!r} cannot be the name of a cluster: {faults[0]}")
    for namespace in (CLUSTER_NAMESPACE, execution_namespace(cluster)):
        await _ensure(host, NAMESPACES, {"metadata": {"name": namespace, "labels": SYSTEM_LABELS}})
    await _register(host, cluster, facts)
    await _ensure(host, LEASES, {"metadata": {"namespace": CLUSTER_NAMESPACE, "name": cluster}, "spec": {}})
    account, bootstrap = account_of(cluster), bootstrap_account_of(cluster)
    # An agent that runs with tokens goes on until it has its certificate.
    subjects = [{"apiGroup": _RBAC, "kind": "User", "name": user_of(cluster)}, _service_account(account)]
    for role, binding, namespace, rules in agent_roles(cluster):
        await _grant(host, role, binding, (namespace, account), rules, subjects)
    if not tokens:
        rules = [REQUEST_CERTIFICATES]
        await _grant(host, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ("", bootstrap), rules, [_service_account(bootstrap)])
    name = account if tokens else bootstrap
    metadata = {"namespace": CLUSTER_NAMESPACE, "name": name, "labels": SYSTEM_LABELS}
    await _ensure(host, SERVICE_ACCOUNTS, {"metadata": metadata})
    return await request_token(host, CLUSTER_NAMESPACE, name, seconds)


async def delete_agent_access(host: Client, cluster: str) -> None:
    """Delete the accounts and the rights of the agent of a cluster; its certificate is worth nothing without them."""
    account, bootstrap = account_of(cluster), bootstrap_account_of(cluster)
    found = [(SERVICE_ACCOUNTS, CLUSTER_NAMESPACE, name) for name in (bootstrap, account)]
    found += [(kind, "", bootstrap) for kind in (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES)]
    for role, binding, namespace, _ in agent_roles(cluster):
        found += [(binding, namespace, account), (role, namespace, account)]
    for resource, namespace, name in found:
        with suppress(NotFound):
            await host.delete(resource, namespace, name)


def _service_account(name: str) -> Raw:
    return {"kind": "ServiceAccount", "namespace": CLUSTER_NAMESPACE, "name": name}


async def _grant(
    host: Client, role: Resource, binding: Resource, place: tuple[str, str], rules: list[Raw], subjects: list[Raw]
) -> None:
    namespace, name = place
    metadata = {"name": name, "labels": SYSTEM_LABELS, **({"namespace": namespace} if namespace else {})}
    await _apply(host, role, {"metadata": metadata, "rules": rules})
    reference = {"apiGroup": _RBAC, "kind": role.kind, "name": name}
    await _apply(host, binding, {"metadata": metadata, "roleRef": reference, "subjects": subjects})


async def _register(host: Client, cluster: str, facts: ClusterFacts) -> None:
    resource = resource_of(kind_of(Cluster))
    with suppress(NotFound):
        found = await host.get(resource, "", cluster)
        if found["spec"].get("syncMode") != "Pull":
            raise InputError(f"the cluster {cluster} is joined in push mode; unjoin it first, or choose another name")
        return
    spec = {"syncMode": "Pull", "provider": facts.provider, "region": facts.region, "zones": list(facts.zones)}
    body = {"metadata": {"name": cluster, "labels": facts.labels}, "spec": {k: v for k, v in spec.items() if v}}
    await _ensure(host, resource, body)


async def _ensure(client: Client, resource: Resource, obj: Raw) -> None:
    with suppress(AlreadyExists):
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        await client.create(resource, body, manager="trimtab-join")


async def _apply(client: Client, resource: Resource, obj: Raw) -> None:
    """Server-side apply: a later version may need other rights."""
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    metadata = obj["metadata"]
    place = metadata.get("namespace", ""), metadata["name"]
    await client.patch(resource, *place, body, type="apply", manager="trimtab-join", force=True)
