"""Fills CertificateSigningRequests with the certificate of a client, as the signers of kube-controller-manager do."""

import asyncio
import base64
import binascii
import importlib
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.clock import timestamp
from trimtab.server.auth.certificates import CertificateAuthority

REQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
KUBELET_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
LONGEST_VALIDITY = timedelta(days=365)
_CLIENT_USAGES = frozenset({"digital signature", "key encipherment", "client auth"})
_NODE_GROUP, _NODE_PREFIX = "system:nodes", "system:node:"


class RequestedSubject(NamedTuple):
    """Whom a certificate is requested for."""

    names: tuple[str, ...]
    groups: tuple[str, ...]
    has_other_names: bool
    """It also asks for subject alternative names."""


def requested_subject(spec: Raw) -> RequestedSubject | None:
    """The subject in a request for a certificate; None when it cannot be read."""
    x509 = importlib.import_module("cryptography.x509")  # slow to import, and few servers get such a request
    try:
        asked = x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
        names, groups = (
            tuple(str(one.value) for one in asked.subject.get_attributes_for_oid(oid))
            for oid in (x509.NameOID.COMMON_NAME, x509.NameOID.ORGANIZATION_NAME)
        )
    except (ValueError, binascii.Error):
        return None
    try:
        has_other_names = any(one.oid == x509.SubjectAlternativeName.oid for one in asked.extensions)
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        has_other_names = True  # names of a kind that cannot be read
    return RequestedSubject(names, groups, has_other_names)


def approved_request(request: Raw, reason: str, message: str, now: datetime) -> Raw:
    """The request with the condition that it is approved."""
    return _with_condition(request, "Approved", reason, message, now)


def _with_condition(request: Raw, type_: str, reason: str, message: str, now: datetime) -> Raw:
    moment = timestamp(now)
    condition = {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastUpdateTime": moment,
        "lastTransitionTime": moment,
    }
    status = request.get("status") or {}
    return {**request, "status": {**status, "conditions": [*(status.get("conditions") or ()), condition]}}


async def answered_request(request: Raw, authority: CertificateAuthority, now: datetime) -> Raw:
    """An approved request with its certificate, or with the condition that the signer refuses it."""
    if why := refusal_of_signer(request["spec"]):
        return _with_condition(request, "Failed", "SignerValidationFailure", why, now)
    return await with_certificate(request, authority, now)


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
    subject = requested_subject(spec)
    if subject is None:
        return "unable to parse the request for a certificate"
    if subject.groups != (_NODE_GROUP,):
        return f"subject organization is not {_NODE_GROUP}"
    if len(subject.names) != 1 or not subject.names[0].startswith(_NODE_PREFIX):
        return f"subject common name does not begin with {_NODE_PREFIX}"
    return "subject alternative names are not allowed" if subject.has_other_names else ""
