"""Clusters that register themselves with a bootstrap token, as with `karmadactl token create` and `karmadactl register`.

A token is a Secret. Whoever has it reads `kube-public/cluster-info` without credentials, checks the signature that the token
makes, and asks for certificates of an agent. Requests of agents are approved if RBAC allows their author to create
`certificatesigningrequests/clusteragent`, or `/selfclusteragent` for a certificate of the same user. The server signs every
approved request for a client certificate (`server/background/certificate_signing.py`).
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import logging
from collections.abc import Callable, Iterator
from datetime import datetime

import orjson

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.client.following import follow
from trimtab.errors import AlreadyExists, ApiError, NotFound
from trimtab.members.join import ROLE_BINDINGS, ROLES, SECRETS
from trimtab.server.auth.authorize import Action, Authorizer
from trimtab.server.auth.bootstrap_tokens import NAMESPACE, SECRET_TYPE, SIGNING, read_token
from trimtab.server.auth.certificates import CertificateAuthority
from trimtab.server.auth.request_signing import CLIENT_SIGNER, REQUESTS, approved_request, requested_subject
from trimtab.server.auth.user import ANONYMOUS, User
from trimtab.tasks import stop_tasks

log = logging.getLogger("trimtab.members")

RBAC, CERTIFICATES = "rbac.authorization.k8s.io", "certificates.k8s.io"
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACED_ROLES = Resource(RBAC, "v1", "roles", "Role")
NAMESPACED_ROLE_BINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding")
PUBLIC, CLUSTER_INFO, SIGNATURE_PREFIX = "kube-public", "cluster-info", "jws-kubeconfig-"
TOKEN_GROUP = "system:bootstrappers:karmada:default-cluster-token"  # noqa: S105 - a group, not a secret
AGENT_GROUP, AGENT_PREFIX = "system:karmada:agents", "system:karmada:agent:"
ROLE_MAKER = f"{AGENT_PREFIX}rbac-generator"
"""As this user `karmadactl register` creates the role of the agent."""
USAGES = ({"digital signature", "client auth"}, {"digital signature", "key encipherment", "client auth"})
EXPIRY_CHECK_SECONDS = 60.0


class Registration:
    """Approves requests of agents and signs the information about the control plane; `trimtab up --bootstrap-tokens` runs it."""

    def __init__(
        self,
        client: Client,
        authorizer: Authorizer,
        authority: CertificateAuthority,
        url: str,
        now: Callable[[], datetime],
    ) -> None:
        self._client, self._authorizer, self._authority = client, authorizer, authority
        self._url, self._now = url, now
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        for resource, obj in objects_of_registration():
            with contextlib.suppress(AlreadyExists):
                await self._client.create(resource, obj)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(follow(self._client, REQUESTS, self.handle_request, log)),
            loop.create_task(follow(self._client, SECRETS, self._sign_after_change, log, NAMESPACE)),
            loop.create_task(self._sign_regularly()),
        ]

    async def stop(self) -> None:
        await stop_tasks(self._tasks, log)

    async def handle_request(self, request: Raw) -> None:
        """Approve a request of an agent; what somebody decided otherwise stays. The server signs it."""
        if request["spec"].get("signerName") != CLIENT_SIGNER or (request.get("status") or {}).get("conditions"):
            return
        if not (why := self._reason_to_approve(request)):
            return
        try:
            approved = approved_request(request, "AutoApproved", why, self._now())
            await self._client.replace(REQUESTS, approved, subresource="approval")
        except ApiError as fault:  # the next change of the request starts another attempt
            log.warning("certificate request", extra={"request": request["metadata"]["name"], "error": str(fault)})

    def _reason_to_approve(self, request: Raw) -> str:
        spec = request["spec"]
        name = agent_asked_for(spec)
        if not name:
            return ""
        user = User(spec.get("username", ""), tuple(spec.get("groups") or ()))
        for kind, is_asked in (("selfclusteragent", user.name == name), ("clusteragent", True)):
            action = Action("create", CERTIFICATES, "certificatesigningrequests", subresource=kind)
            if is_asked and self._authorizer.allows(user, action):
                whose = "self karmada agent" if kind == "selfclusteragent" else "karmada agent"
                return f"Auto approving {whose} certificate after SubjectAccessReview."
        return ""

    async def _sign_after_change(self, secret: Raw) -> None:
        if secret.get("type") == SECRET_TYPE:
            await self.sign_cluster_info()

    async def _sign_regularly(self) -> None:
        """Tokens expire without a change of their Secret, and the authority may get a new certificate."""
        while True:
            try:
                await self.sign_cluster_info()
            except ApiError as fault:
                log.warning("cluster-info", extra={"error": str(fault)})
            await asyncio.sleep(EXPIRY_CHECK_SECONDS)

    async def sign_cluster_info(self) -> None:
        """Write the address and certificate of the control plane, with a signature for every valid token."""
        content = cluster_info(self._url, self._authority.certificate.read_bytes())
        data = {"kubeconfig": content}
        for secret in (await self._client.list(SECRETS, NAMESPACE)).items:
            if (token := read_token(secret, SIGNING, self._now())) is not None:
                data[SIGNATURE_PREFIX + token.id] = detached_signature(content, token.id, token.secret)
        try:
            seen = await self._client.get(CONFIG_MAPS, PUBLIC, CLUSTER_INFO)
        except NotFound:
            head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": PUBLIC, "name": CLUSTER_INFO}}
            await self._client.create(CONFIG_MAPS, {**head, "data": data})
            return
        if seen.get("data") != data:
            await self._client.replace(CONFIG_MAPS, {**seen, "data": data})


def agent_asked_for(spec: Raw) -> str:
    """The user of the certificate that is asked for, if it is one of an agent and nothing else; else empty."""
    subject = requested_subject(spec)
    if subject is None or subject.groups != (AGENT_GROUP,) or subject.has_other_names or len(subject.names) != 1:
        return ""
    name = subject.names[0]
    return name if name.startswith(AGENT_PREFIX) and set(spec.get("usages") or ()) in USAGES else ""


def cluster_info(url: str, certificate: bytes) -> str:
    trusted = base64.b64encode(certificate).decode()
    return (
        "apiVersion: v1\nkind: Config\npreferences: {}\nclusters:\n"
        f'- cluster:\n    certificate-authority-data: {trusted}\n    server: {url}\n  name: ""\n'
        'contexts: null\ncurrent-context: ""\nusers: null\n'
    )


def detached_signature(content: str, token_id: str, secret: str) -> str:
    """A JWS with HMAC-SHA256 whose payload is left out."""
    head = _encode(orjson.dumps({"alg": "HS256", "kid": token_id}))
    signed = f"{head}.{_encode(content.encode())}".encode()
    return f"{head}..{_encode(hmac.new(secret.encode(), signed, hashlib.sha256).digest())}"


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def objects_of_registration() -> Iterator[tuple[Resource, Raw]]:
    """The roles and bindings with which `karmadactl init` prepares a control plane for `karmadactl register`."""
    reader = f"{PUBLIC}:bootstrap-signer-clusterinfo"
    read = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CLUSTER_INFO]}
    yield NAMESPACED_ROLES, _role("Role", reader, [read], PUBLIC)
    yield NAMESPACED_ROLE_BINDINGS, _binding("Role", reader, reader, "User", ANONYMOUS, PUBLIC)
    requests = "certificatesigningrequests"
    ask = {"verbs": ["create", "get", "list", "watch"], "apiGroups": [CERTIFICATES], "resources": [requests]}
    grants = (
        ("system:node-bootstrapper", "system:karmada:agent-bootstrap", "Group", TOKEN_GROUP, [ask]),
        (
            "system:karmada:certificatesigningrequest:autoapprover",
            "system:karmada:agent-autoapprove-bootstrap",
            "Group",
            TOKEN_GROUP,
            [{"verbs": ["create"], "apiGroups": [CERTIFICATES], "resources": [f"{requests}/clusteragent"]}],
        ),
        (
            "system:karmada:certificatesigningrequest:selfautoapprover",
            "system:karmada:agent-autoapprove-certificate-rotation",
            "Group",
            AGENT_GROUP,
            [{"verbs": ["create"], "apiGroups": [CERTIFICATES], "resources": [f"{requests}/selfclusteragent"]}],
        ),
        ("system:karmada:agent-rbac-generator",) * 2 + ("User", ROLE_MAKER, role_maker_rules()),
    )
    for role, binding, kind, subject, rules in grants:
        yield ROLES, _role("ClusterRole", role, rules)
        yield ROLE_BINDINGS, _binding("ClusterRole", binding, role, kind, subject)


def role_maker_rules() -> list[Raw]:
    """What `karmadactl register` needs to create the role of an agent. Roles may grant more than their author has."""
    roles = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]
    change = ["get", "list", "create", "update", "delete"]
    return [
        {"verbs": [*change, "escalate", "bind"], "apiGroups": [RBAC], "resources": roles},
        {"verbs": ["get", "create"], "apiGroups": [""], "resources": ["namespaces"]},
        {"verbs": ["get", "list"], "apiGroups": ["cluster.karmada.io"], "resources": ["clusters"]},
        {"verbs": ["get", "delete"], "apiGroups": [CERTIFICATES], "resources": ["certificatesigningrequests"]},
    ]


def _role(kind: str, name: str, rules: list[Raw], namespace: str = "") -> Raw:
    return {**_head(kind, name, namespace), "rules": rules}


def _binding(role_kind: str, name: str, role: str, kind: str, subject: str, namespace: str = "") -> Raw:
    return {
        **_head(f"{role_kind}Binding", name, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": kind, "name": subject}],
    }


def _head(kind: str, name: str, namespace: str) -> Raw:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata}
