"""What a service account token says about itself; it is not verified, the API server does that."""

import base64
import binascii
import json
from datetime import UTC, datetime
from typing import Any, NamedTuple


class TokenClaims(NamedTuple):
    """The account and the lifetime of a token."""

    namespace: str
    account: str
    issued: datetime
    expires: datetime


def read_claims(token: str) -> TokenClaims | None:
    """The claims of a service account token with an expiry; None for every other token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        _, _, namespace, account = str(claims["sub"]).split(":")
        issued, expires = (datetime.fromtimestamp(float(claims[name]), UTC) for name in ("iat", "exp"))
    except (binascii.Error, ValueError, KeyError, TypeError, OverflowError):
        return None
    return TokenClaims(namespace, account, issued, expires)
