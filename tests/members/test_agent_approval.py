"""Requests of agents are approved for exactly the identity of the cluster whose agent asks."""

import asyncio
import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trimtab.api.value import Raw
from trimtab.clock import WallClock
from trimtab.members.agent_access import AGENT_GROUP, LIFETIME_SECONDS
from trimtab.members.agent_approval import AgentApproval
from trimtab.members.agent_credentials import certificate_request
from trimtab.runtime.declarations import load_declarations
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.request_signing import REQUESTS
from trimtab.server.auth.user import AUTHENTICATED, MASTERS, User
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

load_declarations()
AGENT = "trimtab:agent:east"
BOOTSTRAP = "system:serviceaccount:karmada-cluster:trimtab-bootstrap-east"
CLUSTERS = "cluster.karmada.io", "v1alpha1"
UNREADABLE_NAMES = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, bytes.fromhex("3002a300"))


def request_of(cluster: str = "east", **changes: Any) -> Raw:
    request = certificate_request(cluster, ec.generate_private_key(ec.SECP256R1()))
    return {**request, "spec": {**request["spec"], **changes}}


def subject(*names: tuple[x509.ObjectIdentifier, str], extension: x509.ExtensionType | None = None) -> dict[str, str]:
    """The field of a request for another subject."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(oid, value) for oid, value in names])
    )
    if extension is not None:
        builder = builder.add_extension(extension, critical=False)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return {"request": base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()}


def is_approved(request: Raw, author: str, **cluster: Any) -> bool:
    """Whether the request of this user is approved on a host with the cluster `east`."""

    async def scenario() -> bool:
        server = ApiServer(Store(), ApiServerSettings(garbage_collection=False))
        await server.start()
        host, agent = LocalClient(server), LocalClient(server, User(author, (AUTHENTICATED,)))
        spec = {"syncMode": "Pull", **cluster}
        resource = next(one for one in await host.resources() if one.id == "clusters.cluster.karmada.io")
        body = {"apiVersion": resource.api_version, "kind": "Cluster", "metadata": {"name": "east"}, "spec": spec}
        await host.create(resource, body)
        stored = await agent.create(REQUESTS, request)
        await AgentApproval(host, WallClock()).handle_request(stored)
        found = await host.get(REQUESTS, "", stored["metadata"]["name"])
        await server.stop()
        conditions = (found.get("status") or {}).get("conditions") or []
        return any(one["type"] == "Approved" for one in conditions)

    return asyncio.run(scenario())


@pytest.mark.parametrize("author", [AGENT, BOOTSTRAP])
def test_agent_gets_its_first_certificate_and_the_next(author: str) -> None:
    assert is_approved(request_of(), author)


@pytest.mark.parametrize(
    "author",
    ["tom", "trimtab:agent:west", BOOTSTRAP.replace("east", "west"), BOOTSTRAP.replace("bootstrap", "agent"), MASTERS],
)
def test_nobody_else_gets_the_certificate_of_an_agent(author: str) -> None:
    assert not is_approved(request_of(), author)


GROUP, USER = (NameOID.ORGANIZATION_NAME, AGENT_GROUP), (NameOID.COMMON_NAME, AGENT)


@pytest.mark.parametrize(
    "changes",
    [
        subject(GROUP, (NameOID.ORGANIZATION_NAME, "ops"), USER),
        subject((NameOID.ORGANIZATION_NAME, "ops"), USER),
        subject(USER),
        subject(GROUP, USER, (NameOID.COMMON_NAME, "tom")),
        subject(GROUP, (NameOID.COMMON_NAME, "tom")),
        subject(GROUP, (NameOID.COMMON_NAME, "trimtab:agent:west")),
        subject(GROUP, USER, extension=x509.SubjectAlternativeName([x509.DNSName("east")])),
        subject(GROUP, USER, extension=UNREADABLE_NAMES),
        {"usages": ["digital signature", "client auth", "key encipherment"]},
        {"usages": ["client auth"]},
        {"expirationSeconds": LIFETIME_SECONDS + 1},
        {"expirationSeconds": None},
        {"signerName": "kubernetes.io/kube-apiserver-client-kubelet"},
    ],
)
def test_agent_gets_no_other_identity_and_no_longer_lifetime(changes: dict[str, Any]) -> None:
    for author in (AGENT, BOOTSTRAP):
        assert not is_approved(request_of(**changes), author)


def test_cluster_in_push_mode_has_no_agent() -> None:
    assert not is_approved(request_of(), BOOTSTRAP, syncMode="Push")


def test_cluster_that_does_not_exist_has_no_agent() -> None:
    author = BOOTSTRAP.replace("east", "west")
    assert not is_approved(request_of("west"), author)


def test_decision_of_somebody_else_stays() -> None:
    async def scenario() -> list[str]:
        server = ApiServer(Store(), ApiServerSettings(garbage_collection=False))
        await server.start()
        host = LocalClient(server)
        stored = await LocalClient(server, User(AGENT, (AUTHENTICATED,))).create(REQUESTS, request_of())
        denied = {"type": "Denied", "status": "True", "reason": "No", "message": "no"}
        stored = await host.replace(REQUESTS, {**stored, "status": {"conditions": [denied]}}, subresource="approval")
        await AgentApproval(host, WallClock()).handle_request(stored)
        found = await host.get(REQUESTS, "", stored["metadata"]["name"])
        await server.stop()
        return [one["type"] for one in found["status"]["conditions"]]

    assert asyncio.run(scenario()) == ["Denied"]
