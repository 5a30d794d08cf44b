"""Clusters register themselves with a bootstrap token: they trust what it signs and get the certificate of an agent."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from server.asgi import AsgiClient
from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.errors import ApiError
from trimtab.members.join import ROLE_BINDINGS, SECRETS
from trimtab.members.registration import CONFIG_MAPS, Registration, detached_signature
from trimtab.runtime.declarations import load_declarations
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.certificates import ensure_authority
from trimtab.server.auth.request_signing import REQUESTS
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.server.background.certificate_signing import CertificateSigning
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

load_declarations()
TOKEN_ID, TOKEN_SECRET = "abcdef", "0123456789abcdef"
AUTHORIZATION = f"Bearer {TOKEN_ID}.{TOKEN_SECRET}"
REQUESTS_PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
AGENT, AGENTS = "system:karmada:agent:east", "system:karmada:agents"


def token_secret(groups: str = "system:bootstrappers:karmada:default-cluster-token") -> Raw:
    data = {
        "token-id": TOKEN_ID,
        "token-secret": TOKEN_SECRET,
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
        "auth-extra-groups": groups,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": "kube-system", "name": f"bootstrap-token-{TOKEN_ID}"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


def request_for(user: str, group: str = AGENTS, **spec: Any) -> Raw:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, user)]
    key = ec.generate_private_key(ec.SECP256R1())
    asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "agent"},
        "spec": {
            "request": base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "key encipherment", "client auth"],
            **spec,
        },
    }


def run(path: Path, scenario: Callable[[AsgiClient, Client, Registration], Awaitable[None]]) -> None:
    """Run a scenario with a server, its client, and the registration of clusters at it."""

    async def run_it() -> None:
        server = ApiServer(Store(), ApiServerSettings(garbage_collection=False, bootstrap_tokens=True))
        await server.start()
        client = LocalClient(server)
        authority = ensure_authority(path, ["127.0.0.1"])
        registration = Registration(
            client, server.authorizer, authority, "https://127.0.0.1:6443", lambda: datetime.now(UTC)
        )
        signing = asyncio.ensure_future(CertificateSigning(client, authority, lambda: datetime.now(UTC)).run())
        try:
            await registration.start()
            await scenario(AsgiClient(server), client, registration)
        finally:
            signing.cancel()
            await registration.stop()
            await server.stop()

    asyncio.run(run_it())


async def until(read: Callable[[], Awaitable[Any]]) -> Any:
    """What `read` returns as soon as that is something."""
    while True:
        try:
            if found := await read():
                return found
        except ApiError:
            pass
        await asyncio.sleep(0.01)


def test_holder_of_a_token_can_check_who_answers_without_credentials(tmp_path: Path) -> None:
    async def scenario(wire: AsgiClient, client: Client, registration: Registration) -> None:
        await client.create(SECRETS, token_secret())
        name = f"jws-kubeconfig-{TOKEN_ID}"

        async def signature() -> str | None:
            answer = await wire("GET", "/api/v1/namespaces/kube-public/configmaps/cluster-info", user=None)
            return answer.json().get("data", {}).get(name) and answer.json()["data"]

        data = await until(signature)
        assert data[name] == detached_signature(data["kubeconfig"], TOKEN_ID, TOKEN_SECRET)
        assert "server: https://127.0.0.1:6443" in data["kubeconfig"]
        await client.delete(SECRETS, "kube-system", f"bootstrap-token-{TOKEN_ID}")
        await registration.sign_cluster_info()
        assert name not in (await client.get(CONFIG_MAPS, "kube-public", "cluster-info"))["data"]

    run(tmp_path, scenario)


def test_signature_is_that_of_go_jose() -> None:
    """Clients compare the whole text, so the order of the header counts."""
    head, payload, signature = detached_signature("x", "abcdef", TOKEN_SECRET).split(".")
    assert base64.urlsafe_b64decode(head + "==") == b'{"alg":"HS256","kid":"abcdef"}'
    assert payload == ""
    assert len(base64.urlsafe_b64decode(signature + "=")) == 32


def test_agent_gets_a_certificate_of_the_authority(tmp_path: Path) -> None:
    async def scenario(wire: AsgiClient, client: Client, registration: Registration) -> None:
        await client.create(SECRETS, token_secret())
        asked = request_for(AGENT, expirationSeconds=7200)
        assert (await wire("POST", REQUESTS_PATH, asked, user=None, authorization=AUTHORIZATION)).status == 201

        async def signed() -> str | None:
            return (await client.get(REQUESTS, "", "agent")).get("status", {}).get("certificate")

        certificate = x509.load_pem_x509_certificate(base64.b64decode(await until(signed)))
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes()))
        assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == AGENT
        lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert 7200 <= lifetime.total_seconds() <= 7200 + 600

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "request_body",
    [
        request_for("tom"),
        request_for(AGENT, "ops"),
        request_for(AGENT, usages=["client auth", "digital signature", "server auth"]),
        request_for(AGENT, signerName="example.io/other"),
    ],
)
def test_request_for_anything_but_an_agent_waits_for_a_person(tmp_path: Path, request_body: Raw) -> None:
    async def scenario(wire: AsgiClient, client: Client, registration: Registration) -> None:
        await client.create(SECRETS, token_secret())
        assert (await wire("POST", REQUESTS_PATH, request_body, user=None, authorization=AUTHORIZATION)).status == 201
        stored = await client.get(REQUESTS, "", "agent")
        await registration.handle_request(stored)
        assert not (await client.get(REQUESTS, "", "agent")).get("status")

    run(tmp_path, scenario)


def test_author_without_the_right_is_not_approved(tmp_path: Path) -> None:
    """A user who may create requests is not one who may be an agent."""

    async def scenario(wire: AsgiClient, client: Client, registration: Registration) -> None:
        tom = User("tom", (AUTHENTICATED,))
        refused = await wire("POST", REQUESTS_PATH, request_for(AGENT), user=tom)
        assert refused.status == 403
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tom"}
        granted = {"metadata": {"name": "tom"}, "roleRef": role, "subjects": [subject]}
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
        await client.create(ROLE_BINDINGS, {**head, **granted})
        assert (await wire("POST", REQUESTS_PATH, request_for(AGENT), user=tom)).status == 201
        await registration.handle_request(await client.get(REQUESTS, "", "agent"))
        assert not (await client.get(REQUESTS, "", "agent")).get("status")

    run(tmp_path, scenario)
