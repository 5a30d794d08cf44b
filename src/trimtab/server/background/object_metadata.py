"""The part of stored objects that garbage collection reads: owners, finalizers and deletion."""

import msgspec

from trimtab.api.value import Raw

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""Finalizers of an owner in deletion: its dependents are deleted, or released, before it."""


class Owner(msgspec.Struct, rename="camel"):
    """A reference to an owner."""

    uid: str = ""
    name: str = ""
    kind: str = ""
    api_version: str = ""
    block_owner_deletion: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel"):
    """The metadata of an object."""

    name: str = ""
    uid: str = ""
    namespace: str = ""
    owner_references: list[Owner] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _PartialMetadata(msgspec.Struct):
    metadata: ObjectMeta


_decoder = msgspec.json.Decoder(_PartialMetadata)


def decode_metadata(value: bytes) -> ObjectMeta:
    return _decoder.decode(value).metadata


def read_metadata(metadata: Raw) -> ObjectMeta:
    """The same of an object that is decoded."""
    return msgspec.convert(metadata, ObjectMeta)


def is_in_deletion(value: bytes) -> bool:
    """Whether the stored object is in deletion."""
    return decode_metadata(value).deletion_timestamp is not None


def is_in_foreground_deletion(value: bytes) -> bool:
    """Whether the stored object waits for the deletion of its dependents."""
    meta = decode_metadata(value)
    return bool(meta.deletion_timestamp) and FOREGROUND in (meta.finalizers or ())
