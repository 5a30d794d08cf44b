"""CertificateSigningRequests: a client asks for a certificate, somebody approves it, a signer issues it."""

from trimtab.api.kind import kind
from trimtab.api.kinds.native.rules import certificates
from trimtab.api.value import Object


@kind(
    group="certificates.k8s.io",
    version="v1",
    plural="certificatesigningrequests",
    short=["csr"],
    namespaced=False,
    status=True,
    custom=False,
    validators=[certificates.check_certificate_signing_request],
)
class CertificateSigningRequest(Object):
    """No typed fields: the server and the signer read it raw."""
