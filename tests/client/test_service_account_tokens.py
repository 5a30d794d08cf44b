"""Claims are read of service account tokens only."""

import base64
import json
from datetime import UTC, datetime

import pytest

from trimtab.client.service_account_tokens import TokenClaims, read_claims


def encode(claims: object) -> str:
    return f"head.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.signature"


def test_account_and_lifetime_are_read() -> None:
    token = encode({"sub": "system:serviceaccount:ns:name", "iat": 0, "exp": 3600})
    start = datetime(1970, 1, 1, tzinfo=UTC)
    assert read_claims(token) == TokenClaims("ns", "name", start, start.replace(hour=1))


@pytest.mark.parametrize(
    "token",
    ["", "opaque", "a.b.c", "a.!!.c", encode({}), encode([]), encode({"sub": "user", "iat": 0, "exp": 1}),
     encode({"sub": "system:serviceaccount:ns:name", "iat": 0, "exp": 1e99})],
)  # fmt: skip
def test_other_tokens_have_no_claims(token: str) -> None:
    assert read_claims(token) is None
