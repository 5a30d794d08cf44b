"""A member signs requests for certificates; the certificate is valid at this member and nowhere else."""

import asyncio
import base64
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trimtab.api.value import Raw
from trimtab.client.client import Client
from trimtab.local_fleet import LocalFleet
from trimtab.simulate.components.certificate_signer import REQUESTS
from trimtab.simulate.fleet import uniform_fleet

REVIEW = orjson.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
USAGES = ["digital signature", "client auth"]


async def approved_request(client: Client, key: ec.EllipticCurvePrivateKey, name: str, usages: list[str]) -> None:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    text = base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"request": text, "usages": usages, "signerName": "kubernetes.io/kube-apiserver-client"}
    made = await client.create(REQUESTS, {"metadata": {"name": name}, "spec": {**spec, "expirationSeconds": 3600}})
    condition = {"type": "Approved", "status": "True", "reason": "Known"}
    await client.replace(REQUESTS, {**made, "status": {"conditions": [condition]}}, subresource="approval")


async def answered_status(client: Client, name: str) -> Raw:
    while True:
        status: Raw = (await client.get(REQUESTS, "", name))["status"]
        if status.get("certificate") or len(status["conditions"]) > 1:
            return status
        await asyncio.sleep(0.02)


async def user_at(url: str, trusted: bytes, pair: Path) -> str:
    """Who a server says the owner of the certificate is; empty when it does not accept the connection."""
    context = ssl.create_default_context(cadata=trusted.decode())
    context.load_cert_chain(pair)
    address = urlsplit(url)
    try:
        reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=context)
        head = f"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nhost: {address.netloc}\r\n"
        more = f"content-type: application/json\r\ncontent-length: {len(REVIEW)}\r\nconnection: close\r\n\r\n"
        writer.write((head + more).encode() + REVIEW)
        answer = await reader.read()
        writer.close()
    except OSError:
        return ""
    body = answer.partition(b"\r\n\r\n")[2]
    return str(orjson.loads(body)["status"]["userInfo"]["username"]) if body else ""


async def users_at_servers(local: LocalFleet, pair: Path) -> list[str]:
    trusted = local.daemon.authority_certificate
    urls = (*(local.fleet.endpoint(name) for name in ("member1", "member2")), local.daemon.url)
    return [await user_at(url, trusted, pair) for url in urls]


def test_a_signed_certificate_is_valid_at_its_member_only_and_after_a_restart(tmp_path: Path) -> None:
    pair = tmp_path / "client.pem"

    async def sign() -> None:
        local = LocalFleet(tmp_path / "data", "127.0.0.1", 0, uniform_fleet(2, 1), "trimtab", {})
        await local.open()
        await local.start()
        try:
            client, key = next(iter(local.fleet.world)).client, ec.generate_private_key(ec.SECP256R1())
            await approved_request(client, key, "anna", USAGES)
            certificate = base64.b64decode((await answered_status(client, "anna"))["certificate"])
            form = serialization.PrivateFormat.PKCS8
            text = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
            pair.write_bytes(certificate + text)
            assert await users_at_servers(local, pair) == ["anna", "", ""]
            read = x509.load_pem_x509_certificate(certificate)
            assert (read.not_valid_after_utc - read.not_valid_before_utc).total_seconds() <= 3600 + 300
        finally:
            await local.stop()

    async def use_again() -> None:
        local = LocalFleet(tmp_path / "data", "127.0.0.1", 0, None, "trimtab", {})
        await local.open()
        await local.start()
        try:
            assert await users_at_servers(local, pair) == ["anna", "", ""]
        finally:
            await local.stop()

    asyncio.run(sign())
    asyncio.run(use_again())


def test_a_request_for_other_usages_fails(tmp_path: Path) -> None:
    async def scenario() -> None:
        local = LocalFleet(tmp_path, "127.0.0.1", 0, uniform_fleet(1, 1), "trimtab", {})
        await local.open()
        await local.start()
        try:
            client = next(iter(local.fleet.world)).client
            await approved_request(client, ec.generate_private_key(ec.SECP256R1()), "anna", ["server auth"])
            status = await answered_status(client, "anna")
            assert [one["type"] for one in status["conditions"]] == ["Approved", "Failed"]
            assert status["conditions"][1]["reason"] == "SignerValidationFailure"
            assert not status.get("certificate")
        finally:
            await local.stop()

    asyncio.run(scenario())
