"""Joins a real cluster to the fleet and removes it again: an account in the member, a Cluster on the host."""

import base64
from datetime import UTC, datetime

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.names import label_faults
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.client.kubeconfig import Credentials
from trimtab.errors import AlreadyExists, InputFault, NotFound

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
SECRETS = Resource("", "v1", "secrets", "Secret")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
ROOM = "karmada-cluster"
SYSTEM = {"karmada.io/system": "true"}
TOKEN_SECONDS = 10 * 365 * 24 * 3600


class Facts:
    """What the user states about a cluster when joining it."""

    def __init__(
        self, *, provider: str = "", region: str = "", zones: tuple[str, ...] = (), labels: dict[str, str] | None = None
    ) -> None:
        self.provider = provider
        self.region = region
        self.zones = zones
        self.labels = labels or {}


async def join(
    host: Client, member: Client, name: str, credentials: Credentials, facts: Facts, *, mode: str = "Push"
) -> Raw:
    """Register `member` as `name`: create an account in the member, its token Secret and a Cluster on the host."""
    if faults := label_faults(name):
        raise InputFault(f"{name!r} cannot be the name of a cluster: {faults[0]}")
    identity = await _identity(member)
    await _refuse_twins(host, name, identity)
    spec: Raw = {
        "id": identity,
        "syncMode": mode,
        "apiEndpoint": credentials.server,
        "provider": facts.provider,
        "region": facts.region,
        "zones": list(facts.zones),
        "insecureSkipTLSVerification": credentials.skip_verify,
        "proxyURL": credentials.proxy,
    }
    if mode == "Push":
        token = await _account(member, name)
        await _ensure(host, NAMESPACES, {"metadata": {"name": ROOM}})
        await _keep_token(host, name, token, credentials.ca)
        spec["secretRef"] = {"namespace": ROOM, "name": name}
    cluster = {
        "apiVersion": kind_of(Cluster).api_version,
        "kind": "Cluster",
        "metadata": {"name": name, "labels": facts.labels},
        "spec": {key: value for key, value in spec.items() if value},
    }
    return await host.create(resource_of(kind_of(Cluster)), cluster, manager="trimtab-join")


async def unjoin(host: Client, name: str) -> None:
    """Delete the Cluster; its finalizers delete its Works first and its credentials with it."""
    await host.delete(resource_of(kind_of(Cluster)), "", name)


async def forget_credentials(host: Client, name: str) -> None:
    """Delete the token Secret of a cluster, if there is one."""
    try:
        await host.delete(SECRETS, ROOM, name)
    except NotFound:
        return


async def _identity(member: Client) -> str:
    namespace = await member.get(NAMESPACES, "", "kube-system")
    uid: str = namespace["metadata"]["uid"]
    return uid


async def _refuse_twins(host: Client, name: str, identity: str) -> None:
    for other in (await host.list(resource_of(kind_of(Cluster)))).items:
        if other["metadata"]["name"] == name:
            raise InputFault(f"a cluster called {name} is already joined; unjoin it first, or choose another name")
        if (other.get("spec") or {}).get("id") == identity:
            raise InputFault(f"this cluster is already joined as {other['metadata']['name']}")


async def _ensure(client: Client, resource: Resource, obj: Raw) -> None:
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    try:
        await client.create(resource, body, manager="trimtab-join")
    except AlreadyExists:
        return


async def _account(member: Client, name: str) -> str:
    """Create a service account with full access in the member; returns its token."""
    account = f"karmada-{name}"
    role = f"karmada-controller-manager:{account}"
    await _ensure(member, NAMESPACES, {"metadata": {"name": ROOM, "labels": SYSTEM}})
    await _ensure(member, ACCOUNTS, {"metadata": {"namespace": ROOM, "name": account, "labels": SYSTEM}})
    full_access = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]
    await _ensure(member, ROLES, {"metadata": {"name": role, "labels": SYSTEM}, "rules": full_access})
    await _ensure(
        member,
        ROLE_BINDINGS,
        {
            "metadata": {"name": role, "labels": SYSTEM},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": ROOM, "name": account}],
        },
    )
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    response = await member.submit(ACCOUNTS, ROOM, account, "token", request)
    token: str = response["status"]["token"]
    return token


async def _keep_token(host: Client, name: str, token: str, ca: bytes) -> None:
    """Store the member's token in a Secret on the host; it is never written to a file or a log."""
    data = {"token": base64.b64encode(token.encode()).decode(), "caBundle": base64.b64encode(ca).decode()}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": ROOM,
            "name": name,
            "labels": SYSTEM,
            "annotations": {"trimtab.dev/joined-at": datetime.now(UTC).isoformat(timespec="seconds")},
        },
        "type": "Opaque",
        "data": data,
    }
    try:
        await host.create(SECRETS, secret, manager="trimtab-join")
    except AlreadyExists:
        await host.patch(SECRETS, ROOM, name, {"data": data}, manager="trimtab-join")
