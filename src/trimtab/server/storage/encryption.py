"""Encryption of stored objects by the file that a kube-apiserver takes (`apiserver.config.k8s.io/v1`, EncryptionConfiguration).

Objects of the listed resources are encrypted with the first key of the first provider (AES-GCM with a random nonce of 96 bits, bound
to the key of the object). All keys decrypt. To rotate: put a new key first and start the server again, which writes everything that
another key encrypted once more; then remove the old key. `identity` first decrypts everything in the same way. Providers other than
`aesgcm` and `identity` are refused: they are weaker, or need a service of their own.
"""

import base64
import binascii
import hashlib
import importlib
import secrets
from pathlib import Path
from typing import Any

import msgspec

from trimtab.api.yaml_documents import load_yaml
from trimtab.errors import InputError
from trimtab.store.keys import resource_prefix
from trimtab.store.value_cipher import SEALED_MARK, UnknownKey, is_sealed

API_VERSION = "apiserver.config.k8s.io/v1"
MAX_FILE_BYTES = 1024 * 1024
NONCE_BYTES, ID_BYTES, KEY_SIZES = 12, 8, (16, 24, 32)


class _Key(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    secret: str


class _Keys(msgspec.Struct, forbid_unknown_fields=True):
    keys: tuple[_Key, ...] = ()


class _Provider(msgspec.Struct, forbid_unknown_fields=True):
    aesgcm: _Keys | None = None
    identity: dict[str, object] | None = None


class _Resources(msgspec.Struct, forbid_unknown_fields=True):
    resources: tuple[str, ...]
    providers: tuple[_Provider, ...]


class _Configuration(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    api_version: str
    kind: str
    resources: tuple[_Resources, ...]


class Encryption:
    """Encrypts the values of some resources; the keys of each are in the order of the file."""

    def __init__(self, keys_by_prefix: dict[str, list[bytes | None]]) -> None:
        """`None` among the keys stands for values that are not encrypted."""
        self._first = {prefix: keys[0] for prefix, keys in keys_by_prefix.items()}
        self._prefixes = tuple(keys_by_prefix)
        found = [key for keys in keys_by_prefix.values() for key in keys if key is not None]
        self._ciphers: dict[bytes, Any] = {_id_of(key): _aes_gcm()(key) for key in found}

    def covers(self, key: str) -> bool:
        return key.startswith(self._prefixes)

    def _first_key(self, key: str) -> bytes | None:
        return next((first for prefix, first in self._first.items() if key.startswith(prefix)), None)

    def seal(self, key: str, value: bytes) -> bytes:
        secret = self._first_key(key)
        if secret is None:
            return value
        key_id, nonce = _id_of(secret), secrets.token_bytes(NONCE_BYTES)
        return SEALED_MARK + key_id + nonce + bytes(self._ciphers[key_id].encrypt(nonce, value, key.encode()))

    def open(self, key: str, sealed: bytes) -> bytes:
        start = len(SEALED_MARK)
        key_id, nonce = sealed[start : start + ID_BYTES], sealed[start + ID_BYTES : start + ID_BYTES + NONCE_BYTES]
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise UnknownKey(key)
        invalid = importlib.import_module("cryptography.exceptions").InvalidTag
        try:
            return bytes(cipher.decrypt(nonce, sealed[start + ID_BYTES + NONCE_BYTES :], key.encode()))
        except invalid as error:
            raise ValueError(f"{key} was changed after it was encrypted") from error

    def is_current(self, key: str, stored: bytes) -> bool:
        secret = self._first_key(key)
        if secret is None:
            return not is_sealed(stored)
        return stored.startswith(SEALED_MARK + _id_of(secret))


def _id_of(key: bytes) -> bytes:
    """A name of the key in encrypted values, from which the key cannot be computed."""
    return hashlib.sha256(b"trimtab encryption key id" + key).digest()[:ID_BYTES]


def _aes_gcm() -> Any:
    """Imported when it is needed, because importing cryptography is slow."""
    return importlib.import_module("cryptography.hazmat.primitives.ciphers.aead").AESGCM


def read_encryption(path: Path) -> Encryption:
    """The encryption that a file describes; an InputError names what is wrong with it, and never a key."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"the encryption configuration {path} has more than {MAX_FILE_BYTES} bytes")
        if path.stat().st_mode & 0o077:
            raise InputError(f"others can read the encryption keys in {path}: run `chmod 600 {path}`")
        configuration = msgspec.convert(load_yaml(path.read_bytes()), _Configuration)
    except OSError as error:
        raise InputError(f"the encryption configuration {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is no encryption configuration: {error}") from error
    if (configuration.api_version, configuration.kind) != (API_VERSION, "EncryptionConfiguration"):
        raise InputError(f"{path} must have apiVersion {API_VERSION} and kind EncryptionConfiguration")
    keys: dict[str, list[bytes | None]] = {}
    for number, entry in enumerate(configuration.resources):
        where = f"{path}: resources[{number}]"
        found = [key for provider in entry.providers for key in _keys_of(provider, where)]
        if not found:
            raise InputError(f"{where} has no keys")
        for resource in entry.resources:
            if "*" in resource:
                raise InputError(f"{where}: {resource!r}: name each resource, such as secrets or deployments.apps")
            name, _, group = resource.partition(".")
            keys.setdefault(resource_prefix(group, name), found)
    if not keys:
        raise InputError(f"{path} names no resources")
    return Encryption(keys)


def _keys_of(provider: _Provider, where: str) -> list[bytes | None]:
    if (provider.aesgcm is None) == (provider.identity is None):
        raise InputError(f"{where}: a provider is either aesgcm or identity")
    if provider.aesgcm is None:
        return [None]
    found: list[bytes | None] = []
    for key in provider.aesgcm.keys:
        try:
            secret = base64.b64decode(key.secret, validate=True)
        except (ValueError, binascii.Error):
            raise InputError(f"{where}: the key {key.name!r} is not in base64") from None
        if len(secret) not in KEY_SIZES:
            raise InputError(f"{where}: the key {key.name!r} has {len(secret)} bytes; it must have 16, 24 or 32")
        found.append(secret)
    return found
