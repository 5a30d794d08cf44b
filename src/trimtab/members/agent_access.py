"""The access of a pull agent to its control plane: an account with few rights, and a token that it renews itself.

`trimtab join-command` creates the Cluster, the account and its roles on the host, and prints a token that is valid for an hour. With
it the agent requests a token of its own, which it keeps in a Secret of its cluster and renews when a third of its lifetime has
passed. The agent may read the clusters and the rules of users, write the Works and the status of its own cluster, and renew
its own Lease and token. It reads no Secrets of the host and no Works of other clusters.
"""

import asyncio
import base64
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.names import label_faults
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource, resource_of
from trimtab.client.kube import KubeClient
from trimtab.client.kubeconfig import Credentials
from trimtab.client.service_account_tokens import read_claims
from trimtab.clock import Clock
from trimtab.controllers.well_known import execution_namespace
from trimtab.errors import AlreadyExists, ApiError, Conflict, InputError, NotFound
from trimtab.members.join import (
    CLUSTER_NAMESPACE,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SYSTEM_LABELS,
    ClusterFacts,
    request_token,
)
from trimtab.runtime.leader_election import LEASES
from trimtab.store.files import replace_file

_RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ROLES = Resource(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
BOOTSTRAP_SECONDS = 3600
TOKEN_SECONDS = 30 * 24 * 3600
RENEWED_PART = 3
CHECK_SECONDS = 300.0
_READ = ["get", "list", "watch"]
log = logging.getLogger("trimtab.agent")


class HostAddress(NamedTuple):
    """Where an agent finds its control plane, and the authority that it trusts."""

    server: str
    ca: bytes


def account_of(cluster: str) -> str:
    return f"trimtab-agent-{cluster}"


def namespaced_kinds(cluster: str) -> dict[str, str]:
    """The kinds that the agent of a cluster may read in one namespace only."""
    return {
        "works.work.karmada.io": execution_namespace(cluster),
        "leases.coordination.k8s.io": CLUSTER_NAMESPACE,
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
    ]
    yield CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, "", everywhere
    yield ROLES, ROLE_BINDINGS, execution_namespace(cluster), works
    yield ROLES, ROLE_BINDINGS, CLUSTER_NAMESPACE, own


async def prepare_agent(host: Client, cluster: str, facts: ClusterFacts, seconds: int = BOOTSTRAP_SECONDS) -> str:
    """Register a Pull cluster with an account for its agent; returns a short-lived token of the account."""
    if faults := label_faults(cluster):
        raise InputError(f"{cluster!r} cannot be the name of a cluster: {faults[0]}")
    account = account_of(cluster)
    for namespace in (CLUSTER_NAMESPACE, execution_namespace(cluster)):
        await _ensure(host, NAMESPACES, {"metadata": {"name": namespace, "labels": SYSTEM_LABELS}})
    await _register(host, cluster, facts)
    metadata = {"namespace": CLUSTER_NAMESPACE, "name": account, "labels": SYSTEM_LABELS}
    await _ensure(host, SERVICE_ACCOUNTS, {"metadata": metadata})
    await _ensure(host, LEASES, {"metadata": {"namespace": CLUSTER_NAMESPACE, "name": cluster}, "spec": {}})
    subject = {"kind": "ServiceAccount", "namespace": CLUSTER_NAMESPACE, "name": account}
    for role, binding, namespace, rules in agent_roles(cluster):
        place = {"name": account, "labels": SYSTEM_LABELS, **({"namespace": namespace} if namespace else {})}
        await _apply(host, role, {"metadata": place, "rules": rules})
        reference = {"apiGroup": _RBAC, "kind": role.kind, "name": account}
        await _ensure(host, binding, {"metadata": place, "roleRef": reference, "subjects": [subject]})
    return await request_token(host, CLUSTER_NAMESPACE, account, seconds)


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


class AgentCredentials:
    """The token of an agent: kept in a Secret of its own cluster, and renewed while it is used."""

    def __init__(
        self, member: Client, clock: Clock, cluster: str, address: HostAddress, secret: tuple[str, str], file: Path
    ) -> None:
        """`file` is the kubeconfig that clients of the host read; it is written again with every new token."""
        self._member = member
        self._clock = clock
        self._cluster = cluster
        self._address = address
        self._secret = secret
        self._file = file
        self._token = ""

    async def start(self, bootstrap_token: str) -> None:
        """Use the kept token; without a valid one, exchange the given one."""
        kept = await self._read_kept()
        claims = read_claims(kept)
        if claims is not None and claims.expires > self._clock.now():
            self._use(kept)
            return
        if not bootstrap_token:
            raise InputError("there is no valid token of this agent; run `trimtab join-command` again")
        self._use(bootstrap_token)
        await self.renew()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.renew_if_due()
            except (ApiError, OSError, TimeoutError) as fault:
                log.warning("cannot renew the token for the control plane: %s", fault)

    async def renew_if_due(self) -> None:
        claims = read_claims(self._token)
        if claims is None or self._clock.now() - claims.issued >= (claims.expires - claims.issued) / RENEWED_PART:
            await self.renew()

    async def renew(self) -> None:
        """Request a new token, keep it, and use it from now on; connections stay open."""
        host = KubeClient(Credentials(server=self._address.server, ca=self._address.ca, token=self._token))
        try:
            account = account_of(self._cluster)
            token = await request_token(host, CLUSTER_NAMESPACE, account, TOKEN_SECONDS)
        finally:
            await host.close()
        await self._keep(token)
        self._use(token)
        log.info("renewed the token for the control plane")

    async def _read_kept(self) -> str:
        try:
            found = await self._member.get(SECRETS, *self._secret)
        except NotFound:
            return ""
        return base64.b64decode((found.get("data") or {}).get("token", "")).decode()

    async def _keep(self, token: str) -> None:
        namespace, name = self._secret
        data = {"token": base64.b64encode(token.encode()).decode()}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": namespace, "name": name},
            "type": "Opaque",
            "data": data,
        }
        try:
            await self._member.create(SECRETS, secret, manager="trimtab-agent")
        except (AlreadyExists, Conflict):
            await self._member.patch(SECRETS, namespace, name, {"data": data}, manager="trimtab-agent")

    def _use(self, token: str) -> None:
        self._token = token
        replace_file(self._file, json.dumps(host_kubeconfig(self._address, token)).encode())


def host_kubeconfig(address: HostAddress, token: str) -> Raw:
    authority = {"certificate-authority-data": base64.b64encode(address.ca).decode()} if address.ca else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "host", "cluster": {"server": address.server, **authority}}],
        "users": [{"name": "agent", "user": {"token": token}}],
        "contexts": [{"name": "host", "context": {"cluster": "host", "user": "agent"}}],
        "current-context": "host",
    }
