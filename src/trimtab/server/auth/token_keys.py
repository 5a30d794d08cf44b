"""Keys of service account tokens: a ring of elliptic curve keys with rotation, or one shared secret.

The ring is a directory with one private key per file, named after the time at which it was made. The newest key signs (ES256); all
of them verify, so tokens outlive a rotation. `rotate` adds a key. None is removed by itself, because a token may live for decades;
an administrator who removes a file invalidates the tokens that it signed. Another process may add a key: the directory is looked at again when a token is issued and when a key is unknown.
Verifying a signature takes about 0.1 ms, so the last tokens that verified are remembered.

Whoever has the public keys can verify tokens without asking this server: they are served as a JSON Web Key Set.

The shared secret (HS256) is for servers that live within one process. A data directory of an earlier version has one; its tokens
stay valid until they expire, and no new ones are signed with it.
"""

import base64
import binascii
import hashlib
import hmac
import importlib
import secrets
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import orjson

from trimtab.api.value import Raw
from trimtab.store.files import replace_file

ALGORITHM = "ES256"
KEY_LIFETIME = timedelta(days=90)
_REMEMBERED_TOKENS = 1024
_NAME_FORMAT = "%Y%m%dT%H%M%S%fZ"


def base64_encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def base64_decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class TokenKeys(Protocol):
    """Signs the claims of tokens and verifies their signatures."""

    id_seed: bytes
    """Secret from which ids of tokens are derived."""

    def sign(self, claims: bytes) -> str:
        """The token with these claims."""
        ...

    def verified_claims(self, token: str) -> bytes | None:
        """The claims of a token; None when no key has signed it."""
        ...


class SharedSecret:
    """One secret that signs and verifies."""

    def __init__(self, secret: bytes) -> None:
        self._secret = self.id_seed = secret

    def _signature(self, text: str) -> str:
        return base64_encode(hmac.new(self._secret, text.encode(), hashlib.sha256).digest())

    def sign(self, claims: bytes) -> str:
        text = f"{base64_encode(orjson.dumps({'alg': 'HS256', 'typ': 'JWT'}))}.{base64_encode(claims)}"
        return f"{text}.{self._signature(text)}"

    def verified_claims(self, token: str) -> bytes | None:
        text, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(text).encode()):
            return None
        try:
            return base64_decode(text.partition(".")[2])
        except (ValueError, binascii.Error):
            return None


class KeyRing:
    """The private keys in a directory."""

    def __init__(self, directory: Path, earlier: SharedSecret | None = None) -> None:
        """`earlier` verifies the tokens of an earlier version."""
        self._directory = directory
        self._earlier = earlier
        self.id_seed = secrets.token_bytes(32)
        self._seen = 0
        self._keys: dict[str, Any] = {}
        """By key id, the oldest first."""
        self._verified: OrderedDict[bytes, bytes] = OrderedDict()

    def sign(self, claims: bytes) -> str:
        self._read_again()
        if not self._keys:
            self.rotate(datetime.now(UTC))
        key_id, key = next(reversed(self._keys.items()))
        head = orjson.dumps({"alg": ALGORITHM, "kid": key_id})
        text = f"{base64_encode(head)}.{base64_encode(claims)}"
        return f"{text}.{base64_encode(_es256().sign(key, text.encode()))}"

    def verified_claims(self, token: str) -> bytes | None:
        known = hashlib.sha256(token.encode()).digest()
        if (claims := self._verified.get(known)) is not None:
            self._verified.move_to_end(known)
            return claims
        claims = self._verify(token)
        if claims is not None:
            self._verified[known] = claims
            if len(self._verified) > _REMEMBERED_TOKENS:
                self._verified.popitem(last=False)
        return claims

    def _verify(self, token: str) -> bytes | None:
        text, _, signature = token.rpartition(".")
        head, _, claims = text.partition(".")
        try:
            header = orjson.loads(base64_decode(head))
            algorithm, key_id = header["alg"], str(header.get("kid"))
            if algorithm == ALGORITHM:
                if key_id not in self._keys:
                    self._read_again()
                key = self._keys.get(key_id)
                is_valid = key is not None and _es256().verify(key, text.encode(), base64_decode(signature))
                return base64_decode(claims) if is_valid else None
        except (ValueError, KeyError, TypeError, binascii.Error):
            return None
        return self._earlier.verified_claims(token) if self._earlier is not None and algorithm == "HS256" else None

    def public_keys(self) -> Raw:
        """The keys as a JSON Web Key Set."""
        self._read_again()
        return {"keys": [_es256().public_key(key, key_id) for key_id, key in self._keys.items()]}

    def rotate(self, now: datetime) -> str:
        """Add a key, which signs from now on; returns its id."""
        made = _es256().make_key()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self._directory / f"{now.strftime(_NAME_FORMAT)}.key", made)
        self._read_again()
        return next(reversed(self._keys))

    def rotate_if_old(self, now: datetime) -> bool:
        """Rotate when the newest key is old, or there is none."""
        files = self._files()
        if files and now - _made_at(files[-1]) < KEY_LIFETIME:
            return False
        self.rotate(now)
        return True

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob("*.key"))

    def _read_again(self) -> None:
        """Read the keys if a file was added or removed since the last time."""
        try:
            changed = self._directory.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if changed == self._seen:
            return
        loaded = [_es256().load_key(path) for path in self._files()]
        removed = set(self._keys) - {key_id for key_id, _ in loaded}
        self._keys = dict(loaded)
        if removed:
            self._verified.clear()
        self._seen = changed


def _made_at(path: Path) -> datetime:
    try:
        return datetime.strptime(path.stem, _NAME_FORMAT).replace(tzinfo=UTC)
    except ValueError:  # a key that an administrator brought: as old as its file
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _es256() -> Any:
    """Imported when it is needed, because importing cryptography is slow."""
    return importlib.import_module("trimtab.server.auth.es256")
