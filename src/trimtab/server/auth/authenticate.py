"""Authenticates requests: client certificates, static, bootstrap, service account and ID tokens, or anonymous."""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import orjson

from trimtab.api.value import Raw
from trimtab.clock import timestamp
from trimtab.errors import Unauthorized
from trimtab.server.auth.bootstrap_tokens import BootstrapTokens
from trimtab.server.auth.token_keys import TokenKeys
from trimtab.server.auth.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from trimtab.store.keys import object_key
from trimtab.store.records import StoredEntry

if TYPE_CHECKING:
    from trimtab.server.auth.id_tokens import IdTokens  # imports cryptography, which is slow

ISSUER = "https://kubernetes.default.svc.cluster.local"
_REFUSED = "invalid bearer token"
_NO_CREDENTIALS = "Unauthorized"
ANONYMOUS_USER = User(ANONYMOUS, (UNAUTHENTICATED,))
REVOKED_USER = User("", ())
"""Stands for the user of a certificate that is revoked."""
GetEntry = Callable[[str], StoredEntry | None]


CLOCK_LEEWAY_SECONDS = 60
"""A clock that is set back by no more than this leaves new tokens valid, as in Kubernetes."""


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
    node: Raw | None = None
    """Name and uid of the node of a bound pod."""


class ServiceAccountTokens:
    """Issues and verifies service account tokens."""

    def __init__(self, keys: TokenKeys, get_entry: GetEntry) -> None:
        self._keys = keys
        self._get_entry = get_entry
        self._issued = 0

    def issue(self, claims: TokenClaims) -> str:
        account: Raw = {"name": claims.name, "uid": claims.uid}
        claims_body: Raw = {"namespace": claims.namespace, "serviceaccount": account}
        if claims.bound_object:
            claims_body[claims.bound_object["kind"].lower()] = {
                "name": claims.bound_object["name"],
                "uid": claims.bound_object["uid"],
            }
        if claims.node:
            claims_body["node"] = claims.node
        body = {
            "aud": list(claims.audiences),
            "exp": claims.expires_at,
            "iat": claims.issued_at,
            "iss": ISSUER,
            "jti": self._new_id(claims),
            "kubernetes.io": claims_body,
            "nbf": claims.issued_at,
            "sub": f"system:serviceaccount:{claims.namespace}:{claims.name}",
        }
        return self._keys.sign(orjson.dumps(body))

    def _new_id(self, claims: TokenClaims) -> str:
        """An id that no other token has; derived from the keys, so that runs with the same secret are repeatable."""
        self._issued += 1
        text = f"jti {self._issued} {claims.uid} {claims.issued_at}"
        return str(UUID(bytes=hmac.digest(self._keys.id_seed, text.encode(), "sha256")[:16], version=4))

    def verify(self, token: str, now: datetime, audiences: Sequence[str] = (ISSUER,)) -> "VerifiedToken | str":
        """The user of a token whose signature, lifetime, audience and bound objects are valid; else why it is not."""
        signed = self._keys.verified_claims(token)
        if signed is None:
            return _REFUSED
        body = orjson.loads(signed)
        claims, moment = body["kubernetes.io"], now.timestamp()
        if body["exp"] <= moment:
            return f"[{_REFUSED}, service account token has expired]"
        if body["nbf"] > moment + CLOCK_LEEWAY_SECONDS:
            return f"[{_REFUSED}, service account token is not valid yet]"
        accepted = tuple(audience for audience in audiences if audience in body["aud"])
        if not accepted:
            return f"[{_REFUSED}, token audiences {body['aud']} is invalid for the target audiences {list(audiences)}]"
        if not self._bound_objects_exist(claims, now):
            return f"[{_REFUSED}, service account token has been invalidated]"
        return VerifiedToken(_token_user(body["sub"], claims, body.get("jti") or ""), accepted)

    def _bound_objects_exist(self, claims: Raw, now: datetime) -> bool:
        namespace = claims["namespace"]
        wanted = [("serviceaccounts", namespace, claims["serviceaccount"])]
        wanted += [(f"{kind}s", namespace, claims[kind]) for kind in ("pod", "secret") if kind in claims]
        wanted += [("nodes", "", claims["node"])] if "node" in claims and "pod" not in claims else []
        return all(
            self._exists(object_key("", resource, place, reference["name"]), reference, now)
            for resource, place, reference in wanted
        )

    def _exists(self, key: str, reference: Raw, now: datetime) -> bool:
        """Whether the very object still exists and its deletion is not due."""
        entry = self._get_entry(key)
        if entry is None:
            return False
        metadata = orjson.loads(entry.value)["metadata"]
        deleted_at = metadata.get("deletionTimestamp")
        return metadata.get("uid") == reference["uid"] and (not deleted_at or deleted_at > timestamp(now))


class VerifiedToken(NamedTuple):
    """The user of a valid token, and those of the wanted audiences for which it is valid."""

    user: User
    audiences: tuple[str, ...]


def _token_user(name: str, claims: Raw, token_id: str) -> User:
    namespace, account = claims["namespace"], claims["serviceaccount"]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    extra: list[tuple[str, tuple[str, ...]]] = []
    if token_id:  # tokens of earlier releases have none
        extra.append(("authentication.kubernetes.io/credential-id", (f"JTI={token_id}",)))
    for kind in ("pod", "node", "secret"):
        if bound_object := claims.get(kind):
            extra += [
                (f"authentication.kubernetes.io/{kind}-{key}", (bound_object[key],))
                for key in ("name", "uid")
                if key in bound_object
            ]
    return User(name, groups, account["uid"], tuple(extra))


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
        self,
        tokens: ServiceAccountTokens,
        static_tokens: Mapping[str, User],
        now: Callable[[], datetime],
        *,
        allows_anonymous: bool = True,
        bootstrap_tokens: BootstrapTokens | None = None,
    ) -> None:
        """`bootstrap_tokens`: also accept these."""
        self.tokens = tokens
        self._bootstrap_tokens = bootstrap_tokens
        self._static_tokens = {hashlib.sha256(token.encode()).digest(): user for token, user in static_tokens.items()}
        self._now = now
        self._allows_anonymous = allows_anonymous
        self.id_tokens: IdTokens | None = None
        """Accepts the tokens of an OpenID Connect issuer as well."""

    def add_static_token(self, token: str, user: User) -> None:
        self._static_tokens[hashlib.sha256(token.encode()).digest()] = user

    def verify(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> VerifiedToken | str:
        """The user of a token; or why it is not valid."""
        known = self._static_tokens.get(hashlib.sha256(token.encode()).digest())
        if known is not None:
            return VerifiedToken(known, (ISSUER,)) if ISSUER in audiences else _REFUSED
        if self.id_tokens is not None and self.id_tokens.is_of_issuer(token):
            return self._verify_id_token(self.id_tokens, token) if ISSUER in audiences else _REFUSED
        if self._bootstrap_tokens is not None and (user := self._bootstrap_tokens.verify(token, self._now())):
            return VerifiedToken(user, (ISSUER,)) if ISSUER in audiences else _REFUSED
        return self.tokens.verify(token, self._now(), audiences)

    def _verify_id_token(self, id_tokens: "IdTokens", token: str) -> VerifiedToken | str:
        try:
            return VerifiedToken(id_tokens.user(token), (ISSUER,))
        except ValueError as fault:
            return f"[{_REFUSED}, oidc: {fault}]"

    def authenticate(self, authorization: str, certificate_user: User | None) -> User:
        """The user of a request; an invalid token is rejected even where anonymous requests are allowed."""
        if certificate_user is REVOKED_USER:
            raise Unauthorized("Unauthorized")
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            found = self.verify(token.strip())
            if isinstance(found, str):
                raise Unauthorized("Unauthorized")
            return found.user
        if certificate_user is None and not self._allows_anonymous:
            raise Unauthorized(_NO_CREDENTIALS)
        return certificate_user or ANONYMOUS_USER
