import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trimtab.server.auth.request_signing import is_to_sign, refusal_of_signer

CLIENT, KUBELET = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet"
USAGES = ("digital signature", "key encipherment", "client auth")


def spec(signer: str, user: str, groups: tuple[str, ...] = (), usages: tuple[str, ...] = USAGES) -> dict[str, Any]:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    key = ec.generate_private_key(ec.SECP256R1())
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    text = base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode()
    return {"signerName": signer, "usages": list(usages), "request": text}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (spec(CLIENT, "anna", ("team",)), ""),
        (spec(CLIENT, "anna", usages=("digital signature",)), "usages did not match"),
        (spec(CLIENT, "anna", usages=(*USAGES, "server auth")), "usages did not match"),
        (spec(KUBELET, "system:node:one", ("system:nodes",)), ""),
        (spec(KUBELET, "anna", ("system:nodes",)), "common name"),
        (spec(KUBELET, "system:node:one", ("system:nodes", "system:masters")), "organization"),
        (spec(KUBELET, "system:node:one", ("system:masters",)), "organization"),
    ],
)
def test_a_signer_signs_only_what_it_is_for(asked: dict[str, Any], why: str) -> None:
    refusal = refusal_of_signer(asked)
    assert bool(refusal) == bool(why)
    assert why in refusal


@pytest.mark.parametrize(
    ("types", "certificate", "expected"),
    [
        (["Approved"], "", True),
        ([], "", False),
        (["Approved", "Denied"], "", False),
        (["Approved", "Failed"], "", False),
        (["Approved"], "done", False),
    ],
)
def test_only_an_approved_request_is_signed_and_only_once(types: list[str], certificate: str, expected: bool) -> None:
    conditions = [{"type": one, "status": "True"} for one in types]
    assert is_to_sign({"status": {"conditions": conditions, "certificate": certificate}}) is expected
