"""The identity in a request for a certificate is that of its author, and approving and signing are rights per signer."""

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from server.asgi import ADMIN, AsgiClient, ReceivedResponse, with_asgi_client
from server.rbac_objects import ALICE, BINDINGS, ROLES, cluster_binding, cluster_role, rule

GROUP = "certificates.k8s.io"
REQUESTS = f"/apis/{GROUP}/v1/certificatesigningrequests"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
MERGE = {"content_type": "application/merge-patch+json"}


def pem_request(*groups: str) -> str:
    parts = [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, group) for group in groups]
    name = x509.Name([*parts, x509.NameAttribute(x509.NameOID.COMMON_NAME, "alice")])
    key = ec.generate_private_key(ec.SECP256R1())
    signed = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


def request(signer: str = "example.com/x", text: str = "", **spec: Any) -> dict[str, Any]:
    spec = {"signerName": signer, "request": text or pem_request(), "usages": ["client auth"], **spec}
    return {"apiVersion": f"{GROUP}/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "a"}, "spec": spec}


async def allow(client: AsgiClient, *rules: dict[str, Any]) -> None:
    assert (await client("POST", ROLES, cluster_role("r", *rules))).status == 201
    assert (await client("POST", BINDINGS, cluster_binding("r", "r", "alice"))).status == 201


ALL_BUT_SIGNERS = rule(
    "create get update patch", " ".join(f"certificatesigningrequests{s}" for s in ("", "/approval", "/status")), GROUP
)


def condition(type_: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": type_, "status": "True", "reason": "x", "message": "x"}]}}


async def patch(client: AsgiClient, subresource: str, body: dict[str, Any], user: Any = ALICE) -> ReceivedResponse:
    return await client("PATCH", f"{REQUESTS}/a/{subresource}", body, user=user, **MERGE)


def test_the_server_says_who_asks_for_a_certificate() -> None:
    async def scenario(client: AsgiClient) -> None:
        await allow(client, ALL_BUT_SIGNERS)
        forged = request(username="system:admin", groups=["system:masters"], uid="1", extra={"a": ["b"]})
        spec = (await client("POST", REQUESTS, forged, user=ALICE)).json()["spec"]
        assert (spec["username"], spec["groups"]) == ("alice", ["system:authenticated"])
        assert "uid" not in spec
        assert "extra" not in spec

    with_asgi_client(scenario)


@pytest.mark.parametrize("type_", ["Approved", "Denied"])
def test_a_decision_needs_the_verb_approve_on_the_signer(type_: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await allow(client, ALL_BUT_SIGNERS)
        await client("POST", REQUESTS, request())
        refused = await patch(client, "approval", condition(type_))
        assert refused.status == 403
        assert 'not permitted to approve requests with signerName "example.com/x"' in refused.json()["message"]
        assert (await patch(client, "approval", condition(type_), ADMIN)).status == 200

    with_asgi_client(scenario)


@pytest.mark.parametrize(("name", "status"), [("example.com/x", 200), ("example.com/*", 200), ("example.com/y", 403)])
def test_a_right_on_a_signer_or_its_domain_suffices(name: str, status: int) -> None:
    async def scenario(client: AsgiClient) -> None:
        await allow(client, ALL_BUT_SIGNERS, rule("approve sign", "signers", GROUP, resourceNames=[name]))
        await client("POST", REQUESTS, request())
        assert (await patch(client, "approval", condition("Approved"))).status == status
        certificate = {"status": {"certificate": base64.b64encode(b"x").decode()}}
        assert (await patch(client, "status", certificate)).status == status

    with_asgi_client(scenario)


def test_the_status_does_not_approve_and_the_approval_does_not_sign() -> None:
    async def scenario(client: AsgiClient) -> None:
        await allow(client, ALL_BUT_SIGNERS, rule("approve sign", "signers", GROUP))
        await client("POST", REQUESTS, request())
        assert (await patch(client, "status", condition("Approved"))).status == 403
        both = {**condition("Approved"), "metadata": {"labels": {"a": "b"}}}
        both["status"]["certificate"] = base64.b64encode(b"x").decode()
        changed = (await patch(client, "approval", both)).json()
        assert changed["status"]["conditions"][0]["type"] == "Approved"
        assert "certificate" not in changed["status"]
        assert changed["metadata"]["labels"] == {"a": "b"}

    with_asgi_client(scenario)


def test_nobody_gets_a_client_certificate_of_the_masters() -> None:
    async def scenario(client: AsgiClient) -> None:
        refused = await client("POST", REQUESTS, request(CLIENT_SIGNER, pem_request("system:masters")))
        assert refused.status == 403
        assert "system:masters group is not allowed" in refused.json()["message"]
        unreadable = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----\nx").decode()
        assert (await client("POST", REQUESTS, request(CLIENT_SIGNER, unreadable))).status == 403
        assert (await client("POST", REQUESTS, request(CLIENT_SIGNER, pem_request("devs")))).status == 201

    with_asgi_client(scenario)
