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
from trimtab.store.records import StoredEntry

ISSUER = "https://kubernetes.default.svc.cluster.local"
ANONYMOUS_USER = User(ANONYMOUS, (UNAUTHENTICATED,))
GetEntry = Callable[[str], StoredEntry | None]


def _base64_encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _base64_decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class TokenClaims(NamedTuple):
    """The claims of a service account token."""

    namespace: str
    name: str
    uid: str
    audiences: tuple[str, ...]
    issued_at: int
    expires_at: int
    bound_object: Raw | None = None
    """Kind, name and uid of the object that must exist for the token to be valid."""


class ServiceAccountTokens:
    """Issues and verifies service account tokens, signed with a key that never leaves the data directory."""

    def __init__(self, key: bytes, get_entry: GetEntry) -> None:
        self._key = key
        self._get_entry = get_entry

    def _signature(self, text: str) -> str:
        return _base64_encode(hmac.new(self._key, text.encode(), hashlib.sha256).digest())

    def issue(self, claims: TokenClaims) -> str:
        account: Raw = {"name": claims.name, "uid": claims.uid}
        claims_body: Raw = {"namespace": claims.namespace, "serviceaccount": account}
        if claims.bound_object:
            claims_body[claims.bound_object["kind"].lower()] = {
                "name": claims.bound_object["name"],
                "uid": claims.bound_object["uid"],
            }
        body = {
            "aud": list(claims.audiences),
            "exp": claims.expires_at,
            "iat": claims.issued_at,
            "iss": ISSUER,
            "kubernetes.io": claims_body,
            "nbf": claims.issued_at,
            "sub": f"system:serviceaccount:{claims.namespace}:{claims.name}",
        }
        head = _base64_encode(orjson.dumps({"alg": "HS256", "typ": "JWT"}))
        text = f"{head}.{_base64_encode(orjson.dumps(body))}"
        return f"{text}.{self._signature(text)}"

    def verify(self, token: str, now: datetime, audiences: Sequence[str] = (ISSUER,)) -> User | None:
        """The user of a token with a valid signature, lifetime and audience whose bound objects exist; else None."""
        text, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(text).encode()):
            return None
        try:
            body = orjson.loads(_base64_decode(text.partition(".")[2]))
        except (ValueError, binascii.Error):
            return None
        claims = body["kubernetes.io"]
        if body["exp"] <= now.timestamp() or not set(audiences) & set(body["aud"]):
            return None
        if not self._bound_objects_exist(claims):
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

    def _bound_objects_exist(self, claims: Raw) -> bool:
        namespace = claims["namespace"]
        wanted = [("serviceaccounts", claims["serviceaccount"])]
        wanted += [(f"{kind}s", claims[kind]) for kind in ("pod", "secret") if kind in claims]
        for resource, reference in wanted:
            entry = self._get_entry(f"/registry/core/{resource}/{namespace}/{reference['name']}")
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

    def __init__(
        self, tokens: ServiceAccountTokens, static_tokens: Mapping[str, User], now: Callable[[], datetime]
    ) -> None:
        self.tokens = tokens
        self._static_tokens = {hashlib.sha256(token.encode()).digest(): user for token, user in static_tokens.items()}
        self._now = now

    def user_of_token(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> User | None:
        known = self._static_tokens.get(hashlib.sha256(token.encode()).digest())
        return known or self.tokens.verify(token, self._now(), audiences)

    def authenticate(self, authorization: str, certificate_user: User | None) -> User:
        """The user of a request; an invalid token is rejected even where anonymous requests are allowed."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            user = self.user_of_token(token.strip())
            if user is None:
                raise Unauthorized("Unauthorized")
            return user
        return certificate_user or ANONYMOUS_USER
