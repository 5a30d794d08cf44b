"""Stored bytes and wire bytes: objects are stored ready to send, so that reading them is concatenation.

A stored value is the object's JSON without kind, apiVersion and resourceVersion, with `metadata` first. What is
missing is the same for all objects of a resource, or known to the store, and is prepended when the object is sent.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import orjson
from msgspec import Struct

from trimtab.api.json_bounds import has_more_values
from trimtab.api.limits import MAX_OBJECT_BYTES, MAX_OBJECT_NODES
from trimtab.api.value import Raw
from trimtab.errors import TooLarge
from trimtab.server.resources import ServedResource
from trimtab.store.records import StoredEntry, StoreEvent

_START = len(b'{"metadata":{')
_FIRST_ITEMS, _MAX_ITEMS = 32, 256
"""So many items of a list are encoded at a time: first, and when they are small."""
_MAX_SMALL_LIST = 256
"""Lists with more items are not looked through to find out whether they are small."""
_MAX_RECENT_BYTES = 4 * 1024 * 1024
"""Stored bytes of all objects that are kept decoded, which takes up to thirty times as much memory."""
_OMITTED_FIELDS = ("apiVersion", "kind")
_WRITTEN = "written"
"""The entry of a memo that has the written object, with the version that it is in."""


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _PartialObject(msgspec.Struct):
    metadata: _Metadata


_partial_decoder = msgspec.json.Decoder(_PartialObject)


def pack(obj: Raw) -> bytes:
    """The stored form of an object."""
    metadata = {**obj["metadata"]}
    metadata.pop("resourceVersion", None)
    stored = {"metadata": metadata, **obj}
    stored["metadata"] = metadata  # keeps its first position
    for key in _OMITTED_FIELDS:
        stored.pop(key, None)
    try:
        # a copy of its own size: orjson's result keeps the whole output buffer alive
        value = bytes(memoryview(orjson.dumps(stored)))
    except orjson.JSONEncodeError as error:  # nested more deeply than can be sent
        raise TooLarge(f"the object cannot be stored: {error}") from None
    size = len(value)
    if size > MAX_OBJECT_BYTES:
        raise TooLarge(f"the object cannot be stored: it has {size} bytes; the limit is {MAX_OBJECT_BYTES}")
    if size > MAX_OBJECT_NODES and has_more_values(value, MAX_OBJECT_NODES):
        raise TooLarge(f"the object cannot be stored: it has more than {MAX_OBJECT_NODES} values")
    return value


def unpack(served: ServedResource, value: bytes, revision: int) -> Raw:
    """The object in the version of `served`; a new copy."""
    stored: Raw = orjson.loads(value)
    metadata: Raw = {"resourceVersion": str(revision), **stored.pop("metadata")}
    obj: Raw = {"apiVersion": served.api_version, "kind": served.kind.name, "metadata": metadata, **stored}
    return served.from_stored(obj) if served.from_stored else obj


def event_memo(served: ServedResource, obj: Raw) -> dict[str, Any] | None:
    """The written object as a memo for watchers, so that they need not decode it; it must not change any more."""
    return None if served.to_stored else {_WRITTEN: (served.api_version, obj)}


def written_metadata(event: StoreEvent) -> Raw | None:
    """The metadata of the object that a writer in this process has written; None where it must be decoded."""
    memo = event.memo
    if not memo or _WRITTEN not in memo:
        return None
    metadata: Raw = memo[_WRITTEN][1]["metadata"]
    return metadata


def decode_event(event: StoreEvent, served: ServedResource) -> Raw:
    """The object of an event, or its last state if deleted; decoded once and shared by all in-process watchers."""
    memo = event.memo
    if memo is None:
        memo = event.memo = {}
    name = f"raw {served.api_version}"
    raw: Raw | None = memo.get(name)
    if raw is None:
        version, written = memo.get(_WRITTEN, ("", {}))
        if version == served.api_version:
            metadata = {**written["metadata"], "resourceVersion": str(event.revision)}
            raw = {**written, "metadata": metadata}
        else:
            raw = unpack(served, event.last_value, event.revision)
        memo[name] = raw
    return raw


class _DecodedWrite(Struct, frozen=True):
    served: ServedResource
    revision: int
    obj: Raw
    size: int


class RecentWrites:
    """The latest writes by key, decoded: most objects are written several times in a row."""

    def __init__(self, max_objects: int) -> None:
        self._max_objects = max_objects
        self._written: OrderedDict[str, _DecodedWrite] = OrderedDict()
        self.size = 0
        """The stored bytes of all objects in it."""

    def add(self, served: ServedResource, event: StoreEvent) -> None:
        if (earlier := self._written.pop(event.key, None)) is not None:
            self.size -= earlier.size
        entry = event.entry
        if entry is None or served.to_stored:
            return
        size = len(entry.value)
        if size > _MAX_RECENT_BYTES:
            return
        self._written[event.key] = _DecodedWrite(served, event.revision, decode_event(event, served), size)
        self.size += size
        while len(self._written) > self._max_objects or self.size > _MAX_RECENT_BYTES:
            self.size -= self._written.popitem(last=False)[1].size

    def decode(self, served: ServedResource, entry: StoredEntry) -> Raw:
        """The object of an entry, which may be shared and must not be changed."""
        found = self.find(served, entry)
        return unpack(served, entry.value, entry.mod_revision) if found is None else found

    def find(self, served: ServedResource, entry: StoredEntry) -> Raw | None:
        """The object of an entry, if it is kept decoded."""
        found = self._written.get(entry.key)
        if found is None or found.revision != entry.mod_revision or found.served is not served:
            return None
        return found.obj


def encode_object(served: ServedResource, value: bytes, revision: int) -> bytes:
    """The object's JSON, without a line end."""
    if served.from_stored:
        return orjson.dumps(unpack(served, value, revision))
    return b'%b%d",%b' % (served.object_head, revision, value[_START:])


def encode_item(served: ServedResource, entry: StoredEntry) -> bytes:
    """The object's JSON as a list item."""
    if served.from_stored:
        obj = unpack(served, entry.value, entry.mod_revision)
        if not served.kind.custom:
            del obj["kind"], obj["apiVersion"]
        return orjson.dumps(obj)
    held = entry.held
    value = held if type(held) is bytes else entry.value
    return b'%b%d",%b' % (served.item_head, entry.mod_revision, value[_START:])


def _encode_plain(head: bytes, entries: Sequence[StoredEntry], values: Sequence[bytes]) -> list[bytes]:
    """The JSON of list items whose stored values are not compressed and are sent as they are."""
    return [
        b'%b%d",%b' % (head, entry.mod_revision, value[_START:]) for entry, value in zip(entries, values, strict=True)
    ]


def labels_of(value: bytes) -> dict[str, str]:
    """The labels of a stored object, without decoding the rest."""
    return _partial_decoder.decode(value).metadata.labels or {}


class StoredObject(Struct, frozen=True):
    """One object, as stored."""

    served: ServedResource
    value: bytes
    revision: int | None
    """None for the outcome of a dry-run creation."""
    event: StoreEvent | None = None
    """The event of the write, if it was just written: its memo is shared with watchers."""

    def body(self) -> bytes:
        if self.revision is None:
            return orjson.dumps(self.raw())
        return encode_object(self.served, self.value, self.revision)

    def raw(self) -> Raw:
        obj = unpack(self.served, self.value, self.revision or 0)
        if self.revision is None:
            del obj["metadata"]["resourceVersion"]
        return obj


class ObjectList(NamedTuple):
    """A list, or one page of it."""

    served: ServedResource
    entries: Sequence[StoredEntry]
    revision: int
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> Raw:
        metadata: Raw = {"resourceVersion": str(self.revision)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata

    def frame(self) -> tuple[bytes, bytes]:
        """What comes before and after the items in the list's JSON."""
        served = self.served
        name, version = f"{served.kind.name}List", served.api_version
        if served.kind.custom:
            metadata = orjson.dumps({"continue": "", **self.metadata()})  # custom resource lists always have it
            head = f'{{"apiVersion":"{version}","items":['.encode()
            return head, b'],"kind":"%b","metadata":%b}' % (name.encode(), metadata)
        head = f'{{"kind":"{name}","apiVersion":"{version}","metadata":'.encode()
        return b'%b%b,"items":[' % (head, orjson.dumps(self.metadata())), b"]}"

    def small_body(self, max_bytes: int) -> bytes | None:
        """The list's JSON, if the items are sent as they are stored and have at most so many bytes."""
        entries = self.entries
        if self.served.from_stored or len(entries) > _MAX_SMALL_LIST:
            return None
        values = [held for entry in entries if type(held := entry.held) is bytes]
        if len(values) < len(entries) or sum(map(len, values)) > max_bytes:
            return None
        before, after = self.frame()
        return b"%b%b%b" % (before, b",".join(_encode_plain(self.served.item_head, entries, values)), after)

    def encoded_groups(self, max_bytes: int) -> Iterator[bytes]:
        """The JSON of the items with commas between them: small ones several at a time, of about so many bytes together."""
        served, entries, start = self.served, self.entries, 0
        head, count = served.item_head, 1 if served.from_stored else _FIRST_ITEMS
        while start < len(entries):
            group = entries[start : start + count]
            plain = [held for entry in group if type(held := entry.held) is bytes]
            size = sum(map(len, plain))
            if len(plain) == len(group) and size <= 2 * max_bytes and not served.from_stored:
                made = _encode_plain(head, group, plain)
                count = max(2, min(_MAX_ITEMS, max_bytes * count // size))
            else:  # one is compressed, or they are large together
                made = [encode_item(served, group[0])]
                count = (count + 1) // 2
            yield b",".join(made)
            start += len(made)

    def raw_items(self) -> Iterator[Raw]:
        return (unpack(self.served, entry.value, entry.mod_revision) for entry in self.entries)
