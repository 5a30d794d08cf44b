"""Authenticates requests: client certificates, static and service account tokens, or anonymous."""

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
    """The claims of a service account token."""

    namespace: str
    name: str
    uid: str
    audiences: tuple[str, ...]
    issued: int
    expires: int
    bound: Raw | None = None
    """Kind, name and uid of the object that must exist for the token to be valid."""


class Tokens:
    """Issues and verifies service account tokens, signed with a key that never leaves the data directory."""

    def __init__(self, key: bytes, lookup: Lookup) -> None:
        self._key = key
        self._lookup = lookup

    def _signature(self, text: str) -> str:
        return _encoded(hmac.new(self._key, text.encode(), hashlib.sha256).digest())

    def issue(self, claims: Claims) -> str:
        account: Raw = {"name": claims.name, "uid": claims.uid}
        claims_body: Raw = {"namespace": claims.namespace, "serviceaccount": account}
        if claims.bound:
            claims_body[claims.bound["kind"].lower()] = {"name": claims.bound["name"], "uid": claims.bound["uid"]}
        body = {
            "aud": list(claims.audiences),
            "exp": claims.expires,
            "iat": claims.issued,
            "iss": ISSUER,
            "kubernetes.io": claims_body,
            "nbf": claims.issued,
            "sub": f"system:serviceaccount:{claims.namespace}:{claims.name}",
        }
        head = _encoded(orjson.dumps({"alg": "HS256", "typ": "JWT"}))
        text = f"{head}.{_encoded(orjson.dumps(body))}"
        return f"{text}.{self._signature(text)}"

    def read(self, token: str, now: datetime, audiences: Sequence[str] = (ISSUER,)) -> User | None:
        """The user of a token with a valid signature, lifetime and audience whose bound objects exist; else None."""
        text, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(text).encode()):
            return None
        try:
            body = orjson.loads(_decoded(text.partition(".")[2]))
        except (ValueError, binascii.Error):
            return None
        claims = body["kubernetes.io"]
        if body["exp"] <= now.timestamp() or not set(audiences) & set(body["aud"]):
            return None
        if not self._alive(claims):
            return None
        namespace, account = claims["namespace"], claims["serviceaccount"]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        extra: list[tuple[str, tuple[str, ...]]] = []
        for kind in ("pod", "node", "secret"):
            if bound_object := claims.get(kind):
                extra += [
                    (f"authentication.kubernetes.io/{kind}-{key}", (bound_object[key],)) for key in ("name", "uid")
                ]
        return User(body["sub"], groups, account["uid"], tuple(extra))

    def _alive(self, claims: Raw) -> bool:
        namespace = claims["namespace"]
        wanted = [("serviceaccounts", claims["serviceaccount"])]
        wanted += [(f"{kind}s", claims[kind]) for kind in ("pod", "secret") if kind in claims]
        for resource, reference in wanted:
            entry = self._lookup(f"/registry/core/{resource}/{namespace}/{reference['name']}")
            if entry is None or f'"uid":"{reference["uid"]}"'.encode() not in entry.value:
                return False
        return True


def user_of_certificate(certificate: Mapping[str, Any] | None) -> User | None:
    """The user of a client certificate: CN is the name, every O a group; None without a certificate."""
    if not certificate:
        return None
    attributes = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in attributes if key == "commonName"), "")
    groups = tuple(value for key, value in attributes if key == "organizationName")
    return User(name, (*groups, AUTHENTICATED)) if name else None


class Authenticator:
    """Determines the user of a request."""

    def __init__(self, tokens: Tokens, static: Mapping[str, User], now: Callable[[], datetime]) -> None:
        self.tokens = tokens
        self._static = {hashlib.sha256(token.encode()).digest(): user for token, user in static.items()}
        self._now = now

    def of_token(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> User | None:
        known = self._static.get(hashlib.sha256(token.encode()).digest())
        return known or self.tokens.read(token, self._now(), audiences)

    def user(self, authorization: str, certificate_user: User | None) -> User:
        """The user of a request; an invalid token is rejected even where anonymous requests are allowed."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            user = self.of_token(token.strip())
            if user is None:
                raise Unauthorized("Unauthorized")
            return user
        return certificate_user or NOBODY
