"""ES256 signatures of JSON Web Tokens; imported only when needed, because importing cryptography is slow."""

import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from trimtab.api.value import Raw
from trimtab.errors import InputError
from trimtab.server.auth.token_keys import ALGORITHM, base64_encode

_HALF = 32
"""Bytes of each half of a signature and of each coordinate."""


def make_key() -> bytes:
    """A new private key in PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_key(path: Path) -> tuple[str, ec.EllipticCurvePrivateKey]:
    """The id of the key in a file, and the key."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; restore or remove it") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: it holds no private key in PEM; restore or remove it") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InputError(f"{path} does not hold a key of the curve P-256; remove it")
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64_encode(hashlib.sha256(public).digest()), key


def sign(key: ec.EllipticCurvePrivateKey, text: bytes) -> bytes:
    first, second = decode_dss_signature(key.sign(text, ec.ECDSA(hashes.SHA256())))
    return first.to_bytes(_HALF) + second.to_bytes(_HALF)


def verify(key: ec.EllipticCurvePrivateKey, text: bytes, signature: bytes) -> bool:
    if len(signature) != 2 * _HALF:
        return False
    encoded = encode_dss_signature(int.from_bytes(signature[:_HALF]), int.from_bytes(signature[_HALF:]))
    try:
        key.public_key().verify(encoded, text, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def public_key(key: ec.EllipticCurvePrivateKey, key_id: str) -> Raw:
    """The public key as a JSON Web Key."""
    numbers = key.public_key().public_numbers()
    return {
        "use": "sig",
        "kty": "EC",
        "kid": key_id,
        "crv": "P-256",
        "alg": ALGORITHM,
        "x": base64_encode(numbers.x.to_bytes(_HALF)),
        "y": base64_encode(numbers.y.to_bytes(_HALF)),
    }
