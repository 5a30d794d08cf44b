"""Fills CertificateSigningRequests with the certificate of a client, as the signers of kube-controller-manager do."""

import asyncio
import base64
import importlib
from datetime import datetime, timedelta

from trimtab.api.value import Raw
from trimtab.server.auth.certificates import CertificateAuthority

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
KUBELET_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
LONGEST_VALIDITY = timedelta(days=365)
_CLIENT_USAGES = frozenset({"digital signature", "key encipherment", "client auth"})
_NODE_GROUP, _NODE_PREFIX = "system:nodes", "system:node:"


def is_to_sign(request: Raw) -> bool:
    """Whether somebody approved the request, and nobody denied, failed or signed it."""
    status = request.get("status") or {}
    decisions = {one.get("type") for one in status.get("conditions") or ()}
    return "Approved" in decisions and decisions.isdisjoint({"Denied", "Failed"}) and not status.get("certificate")


async def with_certificate(request: Raw, authority: CertificateAuthority, now: datetime) -> Raw:
    """The request with a certificate in its status, valid as long as it asks for; a ValueError if it cannot be signed."""
    spec = request["spec"]
    seconds = spec.get("expirationSeconds")
    validity = min(timedelta(seconds=seconds), LONGEST_VALIDITY) if seconds else LONGEST_VALIDITY
    signing = importlib.import_module("trimtab.server.auth.signing")  # slow to import
    certificate: bytes = await asyncio.to_thread(
        signing.sign_request, authority, base64.b64decode(spec["request"]), validity, now
    )
    status = {**(request.get("status") or {}), "certificate": base64.b64encode(certificate).decode()}
    return {**request, "status": status}


def refusal_of_signer(spec: Raw) -> str:
    """Why the signer of a client's or a kubelet's certificate does not sign this request; empty if it does."""
    usages = set(spec.get("usages") or ())
    if "client auth" not in usages or not usages <= _CLIENT_USAGES:
        return "usages did not match " + ", ".join(sorted(_CLIENT_USAGES))
    return _refusal_of_kubelet(spec) if spec.get("signerName") == KUBELET_SIGNER else ""


def _refusal_of_kubelet(spec: Raw) -> str:
    """A kubelet gets a certificate of a node and of nothing else: other groups have more rights."""
    x509 = importlib.import_module("cryptography.x509")
    asked = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    names, groups = (
        [str(one.value) for one in asked.subject.get_attributes_for_oid(oid)]
        for oid in (x509.NameOID.COMMON_NAME, x509.NameOID.ORGANIZATION_NAME)
    )
    if groups != [_NODE_GROUP]:
        return f"subject organization is not {_NODE_GROUP}"
    if len(names) != 1 or not names[0].startswith(_NODE_PREFIX):
        return f"subject common name does not begin with {_NODE_PREFIX}"
    if any(one.oid == x509.SubjectAlternativeName.oid for one in asked.extensions):
        return "subject alternative names are not allowed"
    return ""
