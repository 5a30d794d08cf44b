"""Bootstrap tokens: with a Secret of this type, somebody without credentials may ask for a certificate for a while.

The format is that of kubeadm: `kube-system/bootstrap-token-ID` holds the secret half, when the token ends, and what it is for.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import orjson

from trimtab.api.value import Raw
from trimtab.server.auth.user import AUTHENTICATED, User
from trimtab.store.keys import object_key
from trimtab.store.records import StoredEntry

NAMESPACE = "kube-system"
SECRET_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105 - a type, not a secret
NAME_PREFIX = "bootstrap-token-"
AUTHENTICATION, SIGNING = "usage-bootstrap-authentication", "usage-bootstrap-signing"
_GROUP = "system:bootstrappers"
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_EXTRA_GROUP = re.compile(rf"{_GROUP}:[a-z0-9:-]{{0,255}}[a-z0-9]")


class BootstrapToken(NamedTuple):
    """A token that is valid now."""

    id: str
    secret: str
    groups: tuple[str, ...]


def read_token(secret: Raw, usage: str, now: datetime) -> BootstrapToken | None:
    """The token of a Secret; None if it is none, is incomplete, has expired or is not for this usage."""
    try:
        data = {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
    except (ValueError, binascii.Error):
        return None
    found = BootstrapToken(data.get("token-id", ""), data.get("token-secret", ""), _extra_groups(data))
    is_complete = (
        _TOKEN.fullmatch(f"{found.id}.{found.secret}") and secret["metadata"]["name"] == NAME_PREFIX + found.id
    )
    is_for_this = secret.get("type") == SECRET_TYPE and data.get(usage) == "true"
    if not is_complete or not is_for_this or secret["metadata"].get("deletionTimestamp"):
        return None
    return None if _has_expired(data.get("expiration", ""), now) else found


def _extra_groups(data: dict[str, str]) -> tuple[str, ...]:
    named = [name.strip() for name in data.get("auth-extra-groups", "").split(",")]
    return tuple(sorted({name for name in named if _EXTRA_GROUP.fullmatch(name)}))


def _has_expired(text: str, now: datetime) -> bool:
    """Whether this time has passed; a time that cannot be read has."""
    if not text:
        return False
    try:
        return datetime.fromisoformat(text) <= now
    except (ValueError, TypeError):
        return True


class BootstrapTokens:
    """Verifies the tokens of stored Secrets."""

    def __init__(self, get_entry: Callable[[str], StoredEntry | None]) -> None:
        self._get_entry = get_entry

    def verify(self, token: str, now: datetime) -> User | None:
        """The user of a token that is stored and valid."""
        parts = _TOKEN.fullmatch(token)
        if parts is None:
            return None
        entry = self._get_entry(object_key("", "secrets", NAMESPACE, NAME_PREFIX + parts[1]))
        found = read_token(orjson.loads(entry.value), AUTHENTICATION, now) if entry is not None else None
        if found is None or not hmac.compare_digest(found.secret, parts[2]):
            return None
        return User(f"system:bootstrap:{found.id}", (_GROUP, *found.groups, AUTHENTICATED))
