"""Verifies ID tokens of an OpenID Connect issuer, and maps their claims to a user and groups.

The rules are those of kube-apiserver with `--oidc-*`: the issuer and the audience are compared exactly, the token is
signed with a key that the issuer publishes, and an address of mail that the issuer has not verified names nobody.
Two are stricter: names and groups get a prefix unless the administrator removes it, and a claim never gives a name or
a group that begins with `system:`, because those belong to Kubernetes itself.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from trimtab.api.value import Raw
from trimtab.server.auth.user import AUTHENTICATED, User

NO_PREFIX = "-"
LEEWAY_SECONDS = 60
MAX_TOKEN_BYTES = 64 << 10
MAX_KEYS = 64
MAX_GROUPS = 1000
MIN_RSA_BITS = 2048
RESERVED = "system:"
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
HASHES: Mapping[str, hashes.HashAlgorithm] = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
CURVES: Mapping[str, tuple[str, ec.EllipticCurve]] = {
    "ES256": ("P-256", ec.SECP256R1()),
    "ES384": ("P-384", ec.SECP384R1()),
    "ES512": ("P-521", ec.SECP521R1()),
}
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", *CURVES)


class OidcClaims(NamedTuple):
    """Whose tokens are accepted, and which claims name the user and the groups."""

    issuer: str
    client_id: str
    username_claim: str = "sub"
    username_prefix: str = "oidc:"
    groups_claim: str = "groups"
    groups_prefix: str = "oidc:"


class InvalidIdToken(ValueError):
    """An ID token that is not accepted; the message says why."""


class IdTokens:
    """Accepts the ID tokens of one issuer for one client."""

    def __init__(self, claims: OidcClaims, now: Callable[[], datetime]) -> None:
        self.claims = claims
        self._now = now
        self._keys: dict[str, PublicKey] = {}
        self._key_readers: list[Callable[[], None]] = []

    def add_key_reader(self, reader: Callable[[], None]) -> None:
        """Call `reader` when a token names a key that is not known: the issuer may have a new one."""
        self._key_readers.append(reader)

    def replace_keys(self, document: Raw) -> None:
        """Use the keys of a JSON Web Key Set; those for other uses, or of other kinds, are left out."""
        keys = document.get("keys")
        found: dict[str, PublicKey] = {}
        for jwk in keys[:MAX_KEYS] if isinstance(keys, list) else ():
            if isinstance(jwk, dict) and jwk.get("use", "sig") == "sig" and (key := public_key(jwk)) is not None:
                found[str(jwk.get("kid", ""))] = key
        self._keys = found

    def is_of_issuer(self, token: str) -> bool:
        """Whether a token says that this issuer made it; it is not verified."""
        try:
            return bool(decode(token)[1].get("iss") == self.claims.issuer)
        except InvalidIdToken:
            return False

    def user(self, token: str) -> User:
        """The user of a token."""
        return user_of(self.verify(token), self.claims)

    def verify(self, token: str, nonce: str | None = None) -> Raw:
        """The claims of a token that the issuer has signed for this client, which is valid now."""
        header, body, signed, signature = decode(token)
        if body.get("iss") != self.claims.issuer:
            raise InvalidIdToken("the token is of another issuer")
        key = self._keys.get(str(header.get("kid", "")))
        if key is None:
            for reader in self._key_readers:
                reader()
            raise InvalidIdToken("the issuer does not publish the key that has signed the token")
        if not is_signed(str(header.get("alg")), key, signed, signature):
            raise InvalidIdToken("the signature of the token is not valid")
        self._check_audience(body)
        self._check_times(body)
        if nonce is not None and body.get("nonce") != nonce:
            raise InvalidIdToken("the token belongs to another sign-in")
        return body

    def _check_audience(self, body: Raw) -> None:
        audience = body.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if self.claims.client_id not in audiences:
            raise InvalidIdToken("the token is for another client")
        if body.get("azp", self.claims.client_id) != self.claims.client_id:
            raise InvalidIdToken("the token was given to another client")

    def _check_times(self, body: Raw) -> None:
        now = self._now().timestamp()
        if not is_number(body.get("exp")) or body["exp"] <= now:
            raise InvalidIdToken("the token has expired")
        for name in ("nbf", "iat"):
            if name in body and (not is_number(body[name]) or body[name] > now + LEEWAY_SECONDS):
                raise InvalidIdToken("the token is not valid yet")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def user_of(body: Raw, claims: OidcClaims) -> User:
    """The user whom the claims of a verified token name."""
    name = body.get(claims.username_claim)
    if not isinstance(name, str) or not name:
        raise InvalidIdToken(f"the token has no claim {claims.username_claim}")
    if claims.username_claim == "email" and body.get("email_verified", True) is not True:
        raise InvalidIdToken("the issuer has not verified the email address")
    full = with_prefix(claims.username_prefix, name)
    if full.startswith(RESERVED):
        raise InvalidIdToken(f"the name {full} is reserved")
    groups = body.get(claims.groups_claim, []) if claims.groups_claim else []
    listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    named = [with_prefix(claims.groups_prefix, one) for one in listed[:MAX_GROUPS] if isinstance(one, str) and one]
    return User(full, (*(one for one in named if not one.startswith(RESERVED)), AUTHENTICATED))


def with_prefix(prefix: str, name: str) -> str:
    return name if prefix == NO_PREFIX else prefix + name


def decode(token: str) -> tuple[Raw, Raw, bytes, bytes]:
    """Header, claims, what is signed, and the signature."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_TOKEN_BYTES:
        raise InvalidIdToken("this is not an ID token")
    try:
        header, body = (orjson.loads(base64_bytes(part)) for part in parts[:2])
        signature = base64_bytes(parts[2])
    except (ValueError, binascii.Error) as fault:
        raise InvalidIdToken("this is not an ID token") from fault
    if not isinstance(header, dict) or not isinstance(body, dict):
        raise InvalidIdToken("this is not an ID token")
    return header, body, f"{parts[0]}.{parts[1]}".encode(), signature


def base64_bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def base64_number(text: Any) -> int:
    return int.from_bytes(base64_bytes(str(text)))


def public_key(jwk: Raw) -> PublicKey | None:
    """The key of a JSON Web Key; None for one that signs no tokens here, such as a short one."""
    try:
        if jwk.get("kty") == "RSA":
            key = rsa.RSAPublicNumbers(base64_number(jwk["e"]), base64_number(jwk["n"])).public_key()
            return key if key.key_size >= MIN_RSA_BITS else None
        for name, curve in CURVES.values():
            if jwk.get("kty") == "EC" and jwk.get("crv") == name:
                point = base64_number(jwk["x"]), base64_number(jwk["y"])
                return ec.EllipticCurvePublicNumbers(*point, curve).public_key()
    except (KeyError, ValueError, binascii.Error):
        return None
    return None


def is_signed(algorithm: str, key: PublicKey, signed: bytes, signature: bytes) -> bool:
    """Whether the key has made the signature; an algorithm that does not suit the key never has."""
    if algorithm not in ALGORITHMS:
        return False
    digest = HASHES[algorithm[2:]]
    try:
        if isinstance(key, rsa.RSAPublicKey):
            if algorithm.startswith("RS"):
                key.verify(signature, signed, padding.PKCS1v15(), digest)
                return True
            if algorithm.startswith("PS"):
                key.verify(signature, signed, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)
                return True
            return False
        if algorithm not in CURVES or not isinstance(key.curve, type(CURVES[algorithm][1])):
            return False
        half = len(signature) // 2
        if len(signature) != 2 * ((key.curve.key_size + 7) // 8):
            return False
        parts = int.from_bytes(signature[:half]), int.from_bytes(signature[half:])
        key.verify(encode_dss_signature(*parts), signed, ec.ECDSA(digest))
    except InvalidSignature:
        return False
    return True
