"""Protobuf responses: objects, lists, watch frames and aggregated discovery."""

import struct

from trimtab.api import protobuf
from trimtab.api.value import Raw
from trimtab.server.request.messages import Answer
from trimtab.server.request.negotiation import PROTOBUF


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, body: bytes) -> bytes:
    return _number(number << 3 | 2) + _number(len(body)) + body


def encode(raw: Raw) -> bytes:
    """Encode any object; a PartialObjectMetadata has the same encoding as a ConfigMap with metadata only."""
    if raw["kind"] != "PartialObjectMetadata":
        return protobuf.encode(raw)
    config_map = protobuf.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": raw["metadata"]})
    return _envelope(raw, protobuf.decode_envelope(config_map).raw)


def _envelope(head: Raw, body: bytes) -> bytes:
    kind = _field(1, head["apiVersion"].encode()) + _field(2, head["kind"].encode())
    return protobuf.MAGIC + _field(1, kind) + _field(2, body) + _field(3, b"") + _field(4, b"")


def single(code: int, raw: Raw) -> Answer:
    return Answer(code, encode(raw), PROTOBUF, verbatim=True)


def listing(head: Raw, metadata: Raw, items: list[Raw]) -> Answer:
    """A list response; every list message has its metadata in field 1 and its items in field 2."""
    meta = _field(2, metadata["resourceVersion"].encode())
    meta += _field(3, metadata.get("continue", "").encode())
    if "remainingItemCount" in metadata:
        meta += _number(4 << 3) + _number(metadata["remainingItemCount"])
    body = _field(1, meta) + b"".join(_field(2, protobuf.decode_envelope(encode(item)).raw) for item in items)
    return Answer(200, _envelope(head, body), PROTOBUF, verbatim=True)


def watch_frame(type_: str, body: bytes) -> bytes:
    """One length-prefixed watch event."""
    frame = _field(1, type_.encode()) + _field(2, _field(1, body))
    return struct.pack(">I", len(frame)) + frame


def discovery(document: Raw) -> bytes:
    """The aggregated discovery document in protobuf."""
    body = _field(1, b"") + b"".join(_field(2, _group(item)) for item in document["items"])
    return _envelope(document, body)


def _group(item: Raw) -> bytes:
    metadata = _field(1, item["metadata"].get("name", "").encode())
    return _field(1, metadata) + b"".join(_field(2, _version(version)) for version in item["versions"])


def _version(version: Raw) -> bytes:
    resources = b"".join(_field(2, _resource(resource)) for resource in version["resources"])
    return _field(1, version["version"].encode()) + resources + _field(3, version["freshness"].encode())


def _kind(kind: Raw) -> bytes:
    return b"".join(_field(n, kind[key].encode()) for n, key in enumerate(("group", "version", "kind"), 1))


def _texts(number: int, texts: list[str] | None) -> bytes:
    return b"".join(_field(number, text.encode()) for text in texts or ())


def _resource(resource: Raw) -> bytes:
    parts = _field(1, resource["resource"].encode()) + _field(2, _kind(resource["responseKind"]))
    parts += _field(3, resource["scope"].encode()) + _field(4, resource["singularResource"].encode())
    parts += _texts(5, resource["verbs"]) + _texts(6, resource.get("shortNames"))
    parts += _texts(7, resource.get("categories"))
    for sub in resource.get("subresources") or ():
        inner = _field(1, sub["subresource"].encode()) + _field(2, _kind(sub["responseKind"]))
        parts += _field(8, inner + _texts(4, sub["verbs"]))
    return parts
