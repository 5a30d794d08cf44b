"""Protobuf responses: objects, lists, watch frames and aggregated discovery."""

import struct
from collections.abc import Iterable, Iterator

from trimtab.api import protobuf
from trimtab.api.value import Raw
from trimtab.server.request.messages import Response
from trimtab.server.request.negotiation import PROTOBUF
from trimtab.server.request.parts import Pacer, split_bytes


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes_field(field_number: int, body: bytes) -> bytes:
    return _varint(field_number << 3 | 2) + _varint(len(body)) + body


def encode_object(raw: Raw) -> bytes:
    """Encode any object; a PartialObjectMetadata has the same encoding as a ConfigMap with metadata only."""
    if raw["kind"] != "PartialObjectMetadata":
        return protobuf.encode(raw)
    config_map = protobuf.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": raw["metadata"]})
    return _wrap_envelope(raw, protobuf.decode_envelope(config_map).raw)


def _wrap_envelope(head: Raw, body: bytes) -> bytes:
    kind = _bytes_field(1, head["apiVersion"].encode()) + _bytes_field(2, head["kind"].encode())
    return protobuf.MAGIC + _bytes_field(1, kind) + _bytes_field(2, body) + _bytes_field(3, b"") + _bytes_field(4, b"")


def encode_empty_list(head: Raw) -> bytes:
    """A list without items; every list message has its metadata in field 1."""
    return _wrap_envelope(head, _bytes_field(1, b""))


def protobuf_response(code: int, raw: Raw) -> Response:
    return Response(code, encode_object(raw), PROTOBUF, verbatim=True)


def protobuf_list_parts(head: Raw, metadata: Raw, items: Iterable[Raw]) -> Iterator[bytes]:
    """The parts of a list; every list message has its metadata in field 1 and its items in field 2."""
    meta = _bytes_field(2, metadata["resourceVersion"].encode())
    meta += _bytes_field(3, metadata.get("continue", "").encode())
    if "remainingItemCount" in metadata:
        meta += _varint(4 << 3) + _varint(metadata["remainingItemCount"])
    encoded, pacer = [_bytes_field(1, meta)], Pacer()
    for item in items:
        encoded.append(_bytes_field(2, protobuf.decode_envelope(encode_object(item)).raw))
        if pacer.is_due():
            yield b""  # the length of the whole comes first
            pacer = Pacer()
    yield from split_bytes(_wrap_envelope(head, b"".join(encoded)))


def encode_watch_event(type_: str, body: bytes) -> bytes:
    """One length-prefixed watch event."""
    frame = _bytes_field(1, type_.encode()) + _bytes_field(2, _bytes_field(1, body))
    return struct.pack(">I", len(frame)) + frame


def encode_discovery(document: Raw) -> bytes:
    """The aggregated discovery document in protobuf."""
    body = _bytes_field(1, b"") + b"".join(_bytes_field(2, _encode_group(item)) for item in document["items"])
    return _wrap_envelope(document, body)


def _encode_group(item: Raw) -> bytes:
    metadata = _bytes_field(1, item["metadata"].get("name", "").encode())
    return _bytes_field(1, metadata) + b"".join(
        _bytes_field(2, _encode_version(version)) for version in item["versions"]
    )


def _encode_version(version: Raw) -> bytes:
    resources = b"".join(_bytes_field(2, _encode_resource(resource)) for resource in version["resources"])
    return _bytes_field(1, version["version"].encode()) + resources + _bytes_field(3, version["freshness"].encode())


def _encode_kind(kind: Raw) -> bytes:
    return b"".join(_bytes_field(n, kind[key].encode()) for n, key in enumerate(("group", "version", "kind"), 1))


def _string_fields(number: int, texts: list[str] | None) -> bytes:
    return b"".join(_bytes_field(number, text.encode()) for text in texts or ())


def _encode_resource(resource: Raw) -> bytes:
    parts = _bytes_field(1, resource["resource"].encode()) + _bytes_field(2, _encode_kind(resource["responseKind"]))
    parts += _bytes_field(3, resource["scope"].encode()) + _bytes_field(4, resource["singularResource"].encode())
    parts += _string_fields(5, resource["verbs"]) + _string_fields(6, resource.get("shortNames"))
    parts += _string_fields(7, resource.get("categories"))
    for sub in resource.get("subresources") or ():
        inner = _bytes_field(1, sub["subresource"].encode()) + _bytes_field(2, _encode_kind(sub["responseKind"]))
        parts += _bytes_field(8, inner + _string_fields(4, sub["verbs"]))
    return parts
