"""Who sent a request: client certificates, bearer tokens, service accounts, or nobody."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from trimtab.api.value import Raw
from trimtab.errors import Unauthorized
from trimtab.server.auth.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from trimtab.store.records import Entry

ISSUER = "https://kubernetes.default.svc.cluster.local"
NOBODY = User(ANONYMOUS, (UNAUTHENTICATED,))
Lookup = Callable[[str], Entry | None]


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Claims(NamedTuple):
    """What a service account token says."""

    namespace: str
    name: str
    uid: str
    audiences: tuple[str, ...]
    issued: int
    expires: int
    bound: Raw | None = None
    """The object that must still exist for the token to be good: kind, name, uid."""


class Tokens:
    """Makes and reads service account tokens, signed with a key that never leaves the data directory."""

    def __init__(self, key: bytes, lookup: Lookup) -> None:
        self._key = key
        self._lookup = lookup

    def _signature(self, text: str) -> str:
        return _encoded(hmac.new(self._key, text.encode(), hashlib.sha256).digest())

    def issue(self, claims: Claims) -> str:
        account: Raw = {"name": claims.name, "uid": claims.uid}
        inside: Raw = {"namespace": claims.namespace, "serviceaccount": account}
        if claims.bound:
            inside[claims.bound["kind"].lower()] = {"name": claims.bound["name"], "uid": claims.bound["uid"]}
        body = {
            "aud": list(claims.audiences),
            "exp": claims.expires,
            "iat": claims.issued,
            "iss": ISSUER,
            "kubernetes.io": inside,
            "nbf": claims.issued,
            "sub": f"system:serviceaccount:{claims.namespace}:{claims.name}",
        }
        head = _encoded(orjson.dumps({"alg": "HS256", "typ": "JWT"}))
        text = f"{head}.{_encoded(orjson.dumps(body))}"
        return f"{text}.{self._signature(text)}"

    def read(self, token: str, now: datetime, audiences: Sequence[str] = (ISSUER,)) -> User | None:
        """The account of a token that is genuine, in time, meant for us, and whose account still exists."""
        text, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(text).encode()):
            return None
        try:
            body = orjson.loads(_decoded(text.partition(".")[2]))
        except (ValueError, binascii.Error):
            return None
        inside = body["kubernetes.io"]
        if body["exp"] <= now.timestamp() or not set(audiences) & set(body["aud"]):
            return None
        if not self._alive(inside):
            return None
        namespace, account = inside["namespace"], inside["serviceaccount"]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        extra: list[tuple[str, tuple[str, ...]]] = []
        for kind in ("pod", "node", "secret"):
            if bound := inside.get(kind):
                extra += [(f"authentication.kubernetes.io/{kind}-{key}", (bound[key],)) for key in ("name", "uid")]
        return User(body["sub"], groups, account["uid"], tuple(extra))

    def _alive(self, inside: Raw) -> bool:
        namespace = inside["namespace"]
        wanted = [("serviceaccounts", inside["serviceaccount"])]
        wanted += [(f"{kind}s", inside[kind]) for kind in ("pod", "secret") if kind in inside]
        for resource, reference in wanted:
            entry = self._lookup(f"/registry/core/{resource}/{namespace}/{reference['name']}")
            if entry is None or f'"uid":"{reference["uid"]}"'.encode() not in entry.value:
                return False
        return True


def user_of_certificate(certificate: Mapping[str, Any] | None) -> User | None:
    """CN is the user, every O a group; None without a certificate."""
    if not certificate:
        return None
    facts = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in facts if key == "commonName"), "")
    groups = tuple(value for key, value in facts if key == "organizationName")
    return User(name, (*groups, AUTHENTICATED)) if name else None


class Authenticator:
    """Finds the user of a request."""

    def __init__(self, tokens: Tokens, static: Mapping[str, User], now: Callable[[], datetime]) -> None:
        self.tokens = tokens
        self._static = {hashlib.sha256(token.encode()).digest(): user for token, user in static.items()}
        self._now = now

    def of_token(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> User | None:
        known = self._static.get(hashlib.sha256(token.encode()).digest())
        return known or self.tokens.read(token, self._now(), audiences)

    def user(self, authorization: str, certificate_user: User | None) -> User:
        """A wrong token is refused even where nobody would be welcome."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            user = self.of_token(token.strip())
            if user is None:
                raise Unauthorized("Unauthorized")
            return user
        return certificate_user or NOBODY
