import asyncio
import base64
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trimtab.server.auth import signing
from trimtab.server.auth.certificates import CertificateAuthority
from trimtab.server.auth.request_signing import is_to_sign, refusal_of_signer, with_certificate

CLIENT, KUBELET = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet"
USAGES = ("digital signature", "key encipherment", "client auth")


def spec(signer: str, *users: str, groups: tuple[str, ...] = (), usages: tuple[str, ...] = USAGES) -> dict[str, Any]:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*names, *(x509.NameAttribute(NameOID.COMMON_NAME, user) for user in users)])
    key = ec.generate_private_key(ec.SECP256R1())
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    text = base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode()
    return {"signerName": signer, "usages": list(usages), "request": text}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (spec(CLIENT, "anna", groups=("team",)), ""),
        (spec(CLIENT, "anna", usages=("digital signature",)), "usages did not match"),
        (spec(CLIENT, "anna", usages=(*USAGES, "server auth")), "usages did not match"),
        (spec(KUBELET, "system:node:one", groups=("system:nodes",)), ""),
        (spec(KUBELET, "system:node:one", "anna", groups=("system:nodes",)), "common name"),
        (spec(KUBELET, "anna", groups=("system:nodes",)), "common name"),
        (spec(KUBELET, "system:node:one", groups=("system:nodes", "system:masters")), "organization"),
        (spec(KUBELET, "system:node:one", groups=("system:masters",)), "organization"),
    ],
)
def test_a_signer_signs_only_what_it_is_for(asked: dict[str, Any], why: str) -> None:
    refusal = refusal_of_signer(asked)
    assert bool(refusal) == bool(why)
    assert why in refusal


@pytest.mark.parametrize("names", [b"not a name", b"\x30\x04\xa3\x02\x30\x00"])
def test_names_that_cannot_be_read_are_refused(names: bytes) -> None:
    """Neither text that is no sequence of names, nor an X.400 address."""
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, "system:node:one"),
        ]
    )
    extension = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, names)
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject).add_extension(extension, critical=False)
    asked = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    text = base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode()
    refusal = refusal_of_signer({"signerName": KUBELET, "usages": list(USAGES), "request": text})
    assert refusal == "subject alternative names are not allowed"


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


@pytest.mark.parametrize(("seconds", "expected"), [(None, 365), (86_400, 1), (1000 * 86_400, 365)])
def test_a_certificate_is_valid_for_a_limited_time(
    seconds: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_for: list[timedelta] = []

    def sign(_authority: object, _request: bytes, validity: timedelta, _now: datetime) -> bytes:
        signed_for.append(validity)
        return b""

    monkeypatch.setattr(signing, "sign_request", sign)
    request = {"spec": {"request": "", "expirationSeconds": seconds}}
    authority = cast("CertificateAuthority", None)
    asyncio.run(with_certificate(request, authority, datetime(2026, 1, 1, tzinfo=UTC)))
    assert signed_for == [timedelta(days=expected)]
