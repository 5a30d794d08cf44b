"""Objects of kinds whose versions differ: stored in one version, read and written in any.

The stored bytes of such an object name the version that they are in. Before an object is read in another version, its
bytes are replaced by those of the converted object; from there on everything is as with other kinds. Kinds whose versions
have the same fields have no converter, and nothing here applies to them.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from trimtab.server.resources import ServedResource
from trimtab.server.storage.object_codec import StoredObject
from trimtab.store.records import StoredEntry, StoreEvent
from trimtab.store.txn import PutKey


class _Versioned(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815 - the name on the wire


_decoder = msgspec.json.Decoder(_Versioned)


def version_of(value: bytes) -> str:
    """The apiVersion that stored bytes are in; empty when they do not name it."""
    return _decoder.decode(value).apiVersion


def with_version(value: bytes, api_version: str) -> bytes:
    """Stored bytes, which name no version yet, with the version that they are in."""
    return b'%b,"apiVersion":"%b"}' % (value[:-1], api_version.encode())


async def entries_in_version(served: ServedResource, entries: Sequence[StoredEntry]) -> list[StoredEntry]:
    """Entries with the objects as they are in the version of `served`."""
    if served.converter is None or not entries:
        return list(entries)
    values = await served.converter.convert([entry.value for entry in entries], served.api_version)
    return [replace(entry, held=value) for entry, value in zip(entries, values, strict=True)]


async def event_in_version(served: ServedResource, event: StoreEvent) -> StoreEvent:
    """The same event with the objects in the version of `served`; it shares no encodings with others."""
    found = [entry for entry in (event.entry, event.previous) if entry is not None]
    converted = iter(await entries_in_version(served, found))
    entry = next(converted) if event.entry is not None else None
    return StoreEvent(event.key, event.revision, entry, next(converted) if event.previous is not None else None)


async def object_in_version(found: StoredObject) -> StoredObject:
    served = found.served
    if served.converter is None:
        return found
    (value,) = await served.converter.convert([found.value], served.api_version)
    return replace(found, value=value)


async def put_in_storage_version(served: ServedResource, put: PutKey) -> PutKey:
    """The write of an object in the version in which its kind is stored."""
    if served.converter is None:
        return put
    (value,) = await served.converter.convert([put.value], served.converter.storage_version)
    return replace(put, value=value)
