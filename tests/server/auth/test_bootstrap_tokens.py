"""Bootstrap tokens authenticate while their Secret allows it."""

import base64
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from trimtab.server.auth.bootstrap_tokens import AUTHENTICATION, SIGNING, BootstrapTokens, read_token
from trimtab.server.auth.user import User
from trimtab.store.records import StoredEntry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "0123456789abcdef"
TOKEN = f"abcdef.{SECRET}"
DATA = {
    "token-id": "abcdef",
    "token-secret": SECRET,
    "expiration": "2026-03-01T13:00:00Z",
    AUTHENTICATION: "true",
    "auth-extra-groups": "system:bootstrappers:b, system:bootstrappers:a,system:masters",
}


def secret(**fields: str | None) -> dict[str, Any]:
    data = DATA | {key.replace("_", "-"): value for key, value in fields.items()}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items() if value is not None}
    metadata = {"namespace": "kube-system", "name": "bootstrap-token-abcdef"}
    return {"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "data": encoded}


def user_of(token: str, stored: dict[str, Any]) -> User | None:
    key = "/registry/core/secrets/kube-system/bootstrap-token-abcdef"
    entries = {key: StoredEntry(key, orjson.dumps(stored), 1, 1)}
    return BootstrapTokens(entries.get).verify(token, NOW)


def test_user_has_the_groups_of_the_token_that_are_for_bootstrapping() -> None:
    assert user_of(TOKEN, secret()) == User(
        "system:bootstrap:abcdef",
        ("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b", "system:authenticated"),
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"expiration": "2026-03-01T11:59:59Z"},
        {"expiration": "tomorrow"},
        {"expiration": "2026-03-01T13:00:00"},
        {"usage_bootstrap_authentication": "false"},
        {"usage_bootstrap_authentication": None},
        {"token_secret": "0123456789abcdeX"},
        {"token_id": "ghijkl"},
    ],
)
def test_token_that_expired_or_is_for_something_else_is_refused(fields: dict[str, str | None]) -> None:
    assert user_of(TOKEN, secret(**fields)) is None


@pytest.mark.parametrize("token", ["abcdef.0123456789abcdee", "abcdef", "ghijkl.0123456789abcdef", ".", TOKEN + "x"])
def test_other_token_is_refused(token: str) -> None:
    assert user_of(token, secret()) is None


def test_secret_of_another_type_that_is_deleted_or_damaged_is_no_token() -> None:
    assert user_of(TOKEN, {**secret(), "type": "Opaque"}) is None
    gone = secret()
    gone["metadata"]["deletionTimestamp"] = "2026-03-01T11:00:00Z"
    assert user_of(TOKEN, gone) is None
    assert user_of(TOKEN, {**secret(), "data": {"token-id": "*"}}) is None
    assert read_token(secret(), SIGNING, NOW) is None


def test_token_without_an_end_is_valid() -> None:
    assert user_of(TOKEN, secret(expiration=None)) is not None
