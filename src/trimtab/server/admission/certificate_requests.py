"""CertificateSigningRequests: the server says who asks, and only who may approve or sign for a signer does so."""

from collections.abc import Iterator

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.errors import Forbidden
from trimtab.server import api_errors
from trimtab.server.admission.chain import Attributes
from trimtab.server.auth.authorize import Action, Authorizer
from trimtab.server.auth.request_signing import CLIENT_SIGNER, requested_subject
from trimtab.server.auth.user import MASTERS, User

GROUP = "certificates.k8s.io"
REQUESTS = f"certificatesigningrequests.{GROUP}"
_IDENTITY = ("username", "uid", "groups", "extra")
_DECISIONS = ("Approved", "Denied")


class CertificateRequests:
    """The admission plugin, with the rules of kube-apiserver's CertificateApproval, -Signing and -SubjectRestriction."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, kind: Kind, operation: str) -> bool:
        return kind.id == REQUESTS and operation in ("CREATE", "UPDATE")

    async def mutate(self, attributes: Attributes, obj: Raw, old: Raw | None) -> Raw:
        """A new request with the identity of its author, whatever he wrote: approvers and signers rely on it."""
        if old is not None:
            return obj
        spec = {key: value for key, value in (obj.get("spec") or {}).items() if key not in _IDENTITY}
        return {**obj, "spec": {**spec, **attributes.caller.user.user_info()}}

    async def validate(self, attributes: Attributes, obj: Raw | None, old: Raw | None) -> None:
        if obj is None:
            return
        signer = (obj.get("spec") or {}).get("signerName") or ""
        if old is None:
            if signer == CLIENT_SIGNER:
                self._check_subject(attributes, obj)
            return
        if attributes.where.subresource == "approval":
            self._check_signer(attributes, "approve", signer)
        elif attributes.where.subresource == "status":
            if _decisions(obj) != _decisions(old):
                raise _refusal(attributes, "the status may not change whether the request is approved or denied")
            if _certificate(obj) != _certificate(old) or _has_failed(obj) != _has_failed(old):
                self._check_signer(attributes, "sign", signer)

    def _check_subject(self, attributes: Attributes, obj: Raw) -> None:
        subject = requested_subject(obj["spec"])
        if subject is None:
            raise _refusal(attributes, "unable to parse the request for a certificate")
        if MASTERS in subject.groups:
            raise _refusal(attributes, f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")

    def _check_signer(self, attributes: Attributes, verb: str, signer: str) -> None:
        """Requires the verb on the signer, or on all signers of its domain."""
        user: User = attributes.caller.user
        names = (signer, f"{signer.partition('/')[0]}/*")
        if not any(self._authorizer.allows(user, Action(verb, GROUP, "signers", name=name)) for name in names):
            raise _refusal(attributes, f'user not permitted to {verb} requests with signerName "{signer}"')


def _refusal(attributes: Attributes, why: str) -> Forbidden:
    where = attributes.where
    return api_errors.forbidden(where.served.resource, GROUP, where.name, why)


def _conditions(obj: Raw) -> Iterator[Raw]:
    yield from (obj.get("status") or {}).get("conditions") or ()


def _decisions(obj: Raw) -> list[Raw]:
    return [one for one in _conditions(obj) if one.get("type") in _DECISIONS]


def _has_failed(obj: Raw) -> bool:
    return any(one.get("type") == "Failed" for one in _conditions(obj))


def _certificate(obj: Raw) -> str:
    return (obj.get("status") or {}).get("certificate") or ""
