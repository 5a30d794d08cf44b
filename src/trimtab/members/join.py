"""Joins a real cluster to the fleet and removes it again: an account in the member, a Cluster on the host."""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.names import label_faults
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.client.kubeconfig import Credentials
from trimtab.controllers.access.impersonation import IMPERSONATOR
from trimtab.controllers.control_plane_identity import ControlPlaneIdentity
from trimtab.errors import AlreadyExists, ApiError, InputError, NotFound
from trimtab.members.left_objects import remove_left_objects
from trimtab.members.member_rights import DEFAULT_RIGHTS, PROXY_RULES, MemberRights, account_rules
from trimtab.runtime.control_plane_identity import NAMESPACES, read_identity
from trimtab.runtime.observe_only import check_released

SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
SECRETS = Resource("", "v1", "secrets", "Secret")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
NAMESPACED_ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
NAMESPACED_ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_NAMESPACE = "karmada-cluster"
SYSTEM_LABELS = {"karmada.io/system": "true"}
CONTROL_PLANE = "trimtab.dev/control-plane"
"""On the namespace karmada-cluster of a member: the id of the control plane that holds the member."""
TOKEN_SECONDS = 365 * 24 * 3600
"""The lifetime of the token of a member; the control plane renews it (`members/token_renewal.py`)."""


class ClusterFacts:
    """What the user states about a cluster when joining it."""

    def __init__(
        self, *, provider: str = "", region: str = "", zones: tuple[str, ...] = (), labels: dict[str, str] | None = None
    ) -> None:
        self.provider = provider
        self.region = region
        self.zones = zones
        self.labels = labels or {}


async def join(
    host: Client,
    member: Client,
    name: str,
    credentials: Credentials,
    facts: ClusterFacts,
    *,
    mode: str = "Push",
    take_over: bool = False,
    removed: Callable[[Sequence[str]], None] = lambda _: None,
    rights: MemberRights = DEFAULT_RIGHTS,
    allow_proxy: bool = True,
) -> Raw:
    """Register `member` as `name`: create an account in the member, its token Secret and a Cluster on the host.

    Refuses a member that another control plane holds, except with `take_over`. Removes what this control plane left there when
    the member left without an answer; `removed` is called with the names. With `allow_proxy` the account may act as the users of
    the cluster proxy, if the API server of the host serves it.
    """
    check_cluster_name(name)
    await check_released(host, "no cluster can join, which would delete its objects without Works,")
    identity = await cluster_id(member)
    await _check_not_joined(host, name, identity)
    identity_of_host = await read_identity(host)
    await claim_member(member, name, identity_of_host.own, take_over=take_over)
    removed(await remove_left_objects(host, member, identity_of_host))
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
        proxies = allow_proxy and await serves_cluster_proxy(host)
        token = await create_account(member, name, rights, proxies=proxies)
        await store_token(host, name, token, credentials.ca)
        spec["secretRef"] = {"namespace": CLUSTER_NAMESPACE, "name": name}
    cluster = {
        "apiVersion": kind_of(Cluster).api_version,
        "kind": "Cluster",
        "metadata": {"name": name, "labels": facts.labels},
        "spec": {key: value for key, value in spec.items() if value},
    }
    return await host.create(resource_of(kind_of(Cluster)), cluster, manager="trimtab-join")


async def renew_credentials(
    host: Client,
    member: Client,
    name: str,
    credentials: Credentials,
    *,
    take_over: bool,
    rights: MemberRights,
    allow_proxy: bool,
) -> None:
    """Give the control plane a new token in a cluster that it holds; workloads, rights and the Cluster stay as they are.

    What is missing of the account and its roles is created, the roles with `rights`.
    """
    spec = (await host.get(resource_of(kind_of(Cluster)), "", name)).get("spec") or {}
    if spec.get("syncMode") != "Push":
        raise InputError(
            f"the agent of {name} renews its own credentials; for a new token run `trimtab join-command {name}`"
        )
    if spec.get("id") not in (None, "", await cluster_id(member)):
        raise InputError(f"the kubeconfig leads to another cluster than the one that is joined as {name}")
    await claim_member(member, name, (await read_identity(host)).own, take_over=take_over)
    proxies = allow_proxy and await serves_cluster_proxy(host)
    token = await create_account(member, name, rights, proxies=proxies, keep_rules=True)
    await store_token(host, name, token, credentials.ca)


def check_cluster_name(name: str) -> None:
    if faults := label_faults(name):
        raise InputError(f"{name!r} cannot be the name of a cluster: {faults[0]}")


async def unjoin(host: Client, name: str) -> None:
    """Delete the Cluster; its finalizers delete its Works first and its credentials with it."""
    await host.delete(resource_of(kind_of(Cluster)), "", name)


async def delete_credentials(host: Client, name: str) -> None:
    """Delete the token Secret of a cluster, if there is one."""
    with suppress(NotFound):
        await host.delete(SECRETS, CLUSTER_NAMESPACE, name)


async def cluster_id(client: Client) -> str:
    """The uid of kube-system, which identifies a cluster."""
    namespace = await client.get(NAMESPACES, "", "kube-system")
    uid: str = namespace["metadata"]["uid"]
    return uid


async def _check_not_joined(host: Client, name: str, identity: str) -> None:
    for other in (await host.list(resource_of(kind_of(Cluster)))).items:
        if other["metadata"]["name"] == name:
            raise InputError(
                f"a cluster called {name} is already joined; unjoin it first, or choose another name; "
                "for a new token of the same cluster use --renew"
            )
        if (other.get("spec") or {}).get("id") == identity:
            raise InputError(f"this cluster is already joined as {other['metadata']['name']}")


async def claim_member(member: Client, name: str, control_plane: str, *, take_over: bool) -> None:
    """Record in the member which control plane holds it. Raises `InputError` when another one does."""
    await _ensure(member, NAMESPACES, {"metadata": {"name": CLUSTER_NAMESPACE, "labels": SYSTEM_LABELS}})
    metadata = (await member.get(NAMESPACES, "", CLUSTER_NAMESPACE))["metadata"]
    holder = (metadata.get("annotations") or {}).get(CONTROL_PLANE, "")
    if holder == control_plane:
        return
    if holder and not take_over:
        raise InputError(
            f"the cluster for {name} is held by another control plane ({holder}); unjoin it there, "
            "or use --take-over if that control plane no longer exists"
        )
    # The resourceVersion makes one of two simultaneous joins fail.
    claim = {
        "metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": {CONTROL_PLANE: control_plane}}
    }
    await member.patch(NAMESPACES, "", CLUSTER_NAMESPACE, claim, manager="trimtab-join")


async def take_over_claim(member: Client, name: str, identity: ControlPlaneIdentity) -> None:
    """Hold a member under the id that was drawn last. Raises `InputError` when another control plane holds it."""
    metadata = (await member.get(NAMESPACES, "", CLUSTER_NAMESPACE))["metadata"]
    holder = (metadata.get("annotations") or {}).get(CONTROL_PLANE, "")
    await claim_member(member, name, identity.own, take_over=holder in identity.former)


async def release_member(host: Client, member: Client, name: str) -> None:
    """End the access of the control plane of `host` to a member that it holds: the record of that, and its account.

    The tokens of the account are invalid from then on.
    """
    try:
        metadata = (await member.get(NAMESPACES, "", CLUSTER_NAMESPACE))["metadata"]
    except NotFound:
        return
    if (metadata.get("annotations") or {}).get(CONTROL_PLANE) != (await read_identity(host)).own:
        return
    freed = {"metadata": {"annotations": {CONTROL_PLANE: None}}}
    await member.patch(NAMESPACES, "", CLUSTER_NAMESPACE, freed, manager="trimtab-join")
    with suppress(NotFound):
        await member.delete(SERVICE_ACCOUNTS, CLUSTER_NAMESPACE, account_of(name))


async def _ensure(client: Client, resource: Resource, obj: Raw, *, keep_rules: bool = False) -> None:
    body, metadata = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}, obj["metadata"]
    try:
        await client.create(resource, body, manager="trimtab-join")
    except AlreadyExists:
        if "rules" in obj and not keep_rules:  # an earlier join may have allowed something else
            change = {"rules": obj["rules"]}
            await client.patch(
                resource, metadata.get("namespace", ""), metadata["name"], change, manager="trimtab-join"
            )


async def create_account(
    member: Client, name: str, rights: MemberRights, *, proxies: bool, keep_rules: bool = False
) -> str:
    """Create a service account with its roles in the member; returns its token. With `keep_rules` no role is changed."""
    for resource, obj in account_objects(name, rights, proxies=proxies):
        await _ensure(member, resource, obj, keep_rules=keep_rules)
    return await request_token(member, CLUSTER_NAMESPACE, account_of(name), TOKEN_SECONDS)


def account_of(name: str) -> str:
    """The service account of the control plane in the member that is joined under this name."""
    return f"karmada-{name}"


def account_objects(name: str, rights: MemberRights, *, proxies: bool) -> Iterator[tuple[Resource, Raw]]:
    """The account of the control plane in a member, its roles and their bindings."""
    account, role = account_of(name), f"karmada-controller-manager:karmada-{name}"
    metadata = {"namespace": CLUSTER_NAMESPACE, "name": account, "labels": SYSTEM_LABELS}
    yield NAMESPACES, {"metadata": {"name": CLUSTER_NAMESPACE, "labels": SYSTEM_LABELS}}
    yield SERVICE_ACCOUNTS, {"metadata": metadata}
    yield from _granted(NAMESPACED_ROLES, NAMESPACED_ROLE_BINDINGS, account, metadata, account_rules(account))
    yield from _granted(ROLES, ROLE_BINDINGS, account, {"name": role, "labels": SYSTEM_LABELS}, rights.rules())
    if proxies:
        further = {"name": f"{role}:proxy", "labels": SYSTEM_LABELS}
        yield from _granted(ROLES, ROLE_BINDINGS, account, further, list(PROXY_RULES))


def _granted(
    role: Resource, binding: Resource, account: str, metadata: Raw, rules: list[Raw]
) -> Iterator[tuple[Resource, Raw]]:
    """A role, and its binding to the account under the same name."""
    yield role, {"metadata": metadata, "rules": rules}
    yield (
        binding,
        {
            "metadata": metadata,
            "roleRef": {"apiGroup": role.group, "kind": role.kind, "name": metadata["name"]},
            "subjects": [{"kind": "ServiceAccount", "namespace": CLUSTER_NAMESPACE, "name": account}],
        },
    )


async def create_impersonator(member: Client) -> str:
    """Create the account that acts as users of the cluster proxy, as `karmadactl join` does; returns its token.

    A controller gives it the right to impersonate them.
    """
    account = {"namespace": CLUSTER_NAMESPACE, "name": IMPERSONATOR, "labels": SYSTEM_LABELS}
    await _ensure(member, SERVICE_ACCOUNTS, {"metadata": account})
    return await request_token(member, CLUSTER_NAMESPACE, IMPERSONATOR, TOKEN_SECONDS)


async def serves_cluster_proxy(host: Client) -> bool:
    """Whether users reach members through this API server; one that serves `clusters` as a CRD has no such subresource."""
    resource = resource_of(kind_of(Cluster))
    try:
        listed = json.loads((await host.fetch(f"/apis/{resource.api_version}")).body)
    except ApiError:
        return False
    return any(entry.get("name") == f"{resource.plural}/proxy" for entry in listed.get("resources") or ())


async def request_token(member: Client, namespace: str, account: str, seconds: int) -> str:
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    response = await member.submit(SERVICE_ACCOUNTS, namespace, account, "token", request)
    token: str = response["status"]["token"]
    return token


async def store_token(host: Client, name: str, token: str, ca: bytes) -> None:
    """Store the member's token in a Secret on the host; it is never written to a file or a log."""
    await _ensure(host, NAMESPACES, {"metadata": {"name": CLUSTER_NAMESPACE}})
    data = {"token": base64.b64encode(token.encode()).decode(), "caBundle": base64.b64encode(ca).decode()}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": CLUSTER_NAMESPACE,
            "name": name,
            "labels": SYSTEM_LABELS,
            "annotations": {"trimtab.dev/joined-at": datetime.now(UTC).isoformat(timespec="seconds")},
        },
        "type": "Opaque",
        "data": data,
    }
    try:
        await host.create(SECRETS, secret, manager="trimtab-join")
    except AlreadyExists:
        await host.patch(SECRETS, CLUSTER_NAMESPACE, name, {"data": data}, manager="trimtab-join")
