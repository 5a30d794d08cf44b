"""What kube-apiserver rejects in CertificateSigningRequests."""

import base64
import binascii
import re
from collections.abc import Sequence

from trimtab.api.field_errors import invalid, required
from trimtab.api.kinds.native.rules import common
from trimtab.api.paths import object_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_MIN_SECONDS = 600
_FIRST_BLOCK = re.compile(rb"^-----BEGIN ([^\r\n-]+)-----\s*$", re.MULTILINE)
"""The first PEM block; text before it is a comment."""


def check_certificate_signing_request(new: Raw, old: Raw | None) -> Sequence[Cause]:
    spec = object_at(new, "spec")
    if old is not None:
        return list(common.check_unchanged(spec, object_at(old, "spec"), "spec"))
    found: list[Cause] = []
    try:
        request = base64.b64decode(spec.get("request") or "", validate=True)
    except (binascii.Error, ValueError):
        request = b""
    block = _FIRST_BLOCK.search(request)
    if block is None or block[1] != b"CERTIFICATE REQUEST":
        found.append(invalid("spec.request", spec.get("request", ""), "PEM block type must be CERTIFICATE REQUEST"))
    signer = spec.get("signerName") or ""
    if not signer:
        found.append(required("spec.signerName"))
    elif "/" not in signer:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        found.append(invalid("spec.signerName", signer, text))
    if not spec.get("usages"):
        found.append(required("spec.usages"))
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _MIN_SECONDS:
        text = f"may not specify a duration less than {_MIN_SECONDS} seconds (10 minutes)"
        found.append(invalid("spec.expirationSeconds", seconds, text))
    return found
