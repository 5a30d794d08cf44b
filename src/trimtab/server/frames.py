"""Protobuf answers: single objects, lists of them, and the frames of a watch."""

import struct

from trimtab.api import protobuf
from trimtab.api.value import Raw
from trimtab.server.answer import Answer
from trimtab.server.negotiate import PROTOBUF


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, body: bytes) -> bytes:
    return _number(number << 3 | 2) + _number(len(body)) + body


def single(code: int, raw: Raw) -> Answer:
    return Answer(code, protobuf.encode(raw), PROTOBUF, verbatim=True)


def listing(head: Raw, metadata: Raw, items: list[Raw]) -> Answer:
    """A list: every list message has its metadata first, then its items."""
    meta = _field(2, metadata["resourceVersion"].encode())
    meta += _field(3, metadata.get("continue", "").encode())
    if "remainingItemCount" in metadata:
        meta += _number(4 << 3) + _number(metadata["remainingItemCount"])
    body = _field(1, meta) + b"".join(_field(2, protobuf.open_envelope(protobuf.encode(item)).raw) for item in items)
    kind = _field(1, head["apiVersion"].encode()) + _field(2, head["kind"].encode())
    envelope = protobuf.MAGIC + _field(1, kind) + _field(2, body) + _field(3, b"") + _field(4, b"")
    return Answer(200, envelope, PROTOBUF, verbatim=True)


def watch_frame(type_: str, body: bytes) -> bytes:
    """One event of a watch, with its length in front."""
    frame = _field(1, type_.encode()) + _field(2, _field(1, body))
    return struct.pack(">I", len(frame)) + frame
