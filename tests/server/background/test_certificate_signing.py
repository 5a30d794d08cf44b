"""Approved requests for client certificates are signed by the authority of the server, and no others."""

import asyncio
import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from server.auth.test_request_signing import CLIENT, spec
from trimtab.api.value import Raw
from trimtab.runtime.declarations import load_declarations
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.auth.certificates import ensure_authority
from trimtab.server.auth.request_signing import REQUESTS
from trimtab.server.background.certificate_signing import CertificateSigning
from trimtab.server.local import LocalClient
from trimtab.store.store import Store

load_declarations()


def status_after(path: Path, decision: str, asked: dict[str, Any]) -> Raw:
    """The status of a request after the decision, when the signer has seen it."""

    async def scenario() -> Raw:
        server = ApiServer(Store(), ApiServerSettings(garbage_collection=False))
        await server.start()
        client = LocalClient(server)
        signing = CertificateSigning(client, ensure_authority(path, ["127.0.0.1"]), lambda: datetime.now(UTC))
        head = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
        stored = await client.create(REQUESTS, {**head, "metadata": {"name": "one"}, "spec": asked})
        if decision:
            conditions = [{"type": decision, "status": "True", "reason": "Why", "message": "why"}]
            stored = await client.replace(
                REQUESTS, {**stored, "status": {"conditions": conditions}}, subresource="approval"
            )
        await signing.handle_request(stored)
        found = await client.get(REQUESTS, "", "one")
        await server.stop()
        return dict(found.get("status") or {})

    return asyncio.run(scenario())


def test_approved_request_is_signed(tmp_path: Path) -> None:
    status = status_after(tmp_path, "Approved", spec(CLIENT, "anna"))
    certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes()))


@pytest.mark.parametrize("decision", ["", "Denied"])
def test_request_that_nobody_approved_is_not_signed(tmp_path: Path, decision: str) -> None:
    assert "certificate" not in status_after(tmp_path, decision, spec(CLIENT, "anna"))


def test_request_of_another_signer_is_left_alone(tmp_path: Path) -> None:
    assert "certificate" not in status_after(tmp_path, "Approved", spec("example.io/other", "anna"))


def test_request_for_a_server_certificate_fails(tmp_path: Path) -> None:
    status = status_after(tmp_path, "Approved", spec(CLIENT, "anna", usages=("client auth", "server auth")))
    assert "certificate" not in status
    assert [one["type"] for one in status["conditions"]] == ["Approved", "Failed"]
