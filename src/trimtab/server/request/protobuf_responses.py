"""Protobuf responses: objects, lists, watch frames and aggregated discovery."""

import struct
from collections.abc import Iterable, Iterator

from trimtab.api import protobuf
from trimtab.api.protobuf_wire import encode_delimited, encode_integer
from trimtab.api.value import Raw
from trimtab.server.request.messages import Response
from trimtab.server.request.negotiation import PROTOBUF
from trimtab.server.request.parts import Pacer, split_bytes


def encode_object(raw: Raw) -> bytes:
    """Encode any object; a PartialObjectMetadata has the same encoding as a ConfigMap with metadata only."""
    if raw["kind"] != "PartialObjectMetadata":
        return protobuf.encode(raw)
    config_map = protobuf.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": raw["metadata"]})
    return protobuf.wrap_in_envelope(raw, protobuf.decode_envelope(config_map).raw)


def encode_empty_list(head: Raw) -> bytes:
    """A list without items; every list message has its metadata in field 1."""
    return protobuf.wrap_in_envelope(head, encode_delimited(1, b""))


def protobuf_response(code: int, raw: Raw) -> Response:
    return Response(code, encode_object(raw), PROTOBUF, verbatim=True)


def protobuf_list_parts(head: Raw, metadata: Raw, items: Iterable[Raw]) -> Iterator[bytes]:
    """The parts of a list; every list message has its metadata in field 1 and its items in field 2."""
    meta = encode_delimited(2, metadata["resourceVersion"].encode())
    meta += encode_delimited(3, metadata.get("continue", "").encode())
    if "remainingItemCount" in metadata:
        meta += encode_integer(4, metadata["remainingItemCount"])
    encoded, pacer = [encode_delimited(1, meta)], Pacer()
    for item in items:
        encoded.append(encode_delimited(2, protobuf.decode_envelope(encode_object(item)).raw))
        if pacer.is_due():
            yield b""  # the length of the whole comes first
            pacer = Pacer()
    yield from split_bytes(protobuf.wrap_in_envelope(head, b"".join(encoded)))


def encode_watch_event(type_: str, body: bytes) -> bytes:
    """One length-prefixed watch event."""
    frame = encode_delimited(1, type_.encode()) + encode_delimited(2, encode_delimited(1, body))
    return struct.pack(">I", len(frame)) + frame


def encode_discovery(document: Raw) -> bytes:
    """The aggregated discovery document in protobuf."""
    body = encode_delimited(1, b"") + b"".join(encode_delimited(2, _encode_group(item)) for item in document["items"])
    return protobuf.wrap_in_envelope(document, body)


def _encode_group(item: Raw) -> bytes:
    metadata = encode_delimited(1, item["metadata"].get("name", "").encode())
    return encode_delimited(1, metadata) + b"".join(
        encode_delimited(2, _encode_version(version)) for version in item["versions"]
    )


def _encode_version(version: Raw) -> bytes:
    resources = b"".join(encode_delimited(2, _encode_resource(resource)) for resource in version["resources"])
    return (
        encode_delimited(1, version["version"].encode())
        + resources
        + encode_delimited(3, version["freshness"].encode())
    )


def _encode_kind(kind: Raw) -> bytes:
    return b"".join(encode_delimited(n, kind[key].encode()) for n, key in enumerate(("group", "version", "kind"), 1))


def _string_fields(number: int, texts: list[str] | None) -> bytes:
    return b"".join(encode_delimited(number, text.encode()) for text in texts or ())


def _encode_resource(resource: Raw) -> bytes:
    parts = encode_delimited(1, resource["resource"].encode()) + encode_delimited(
        2, _encode_kind(resource["responseKind"])
    )
    parts += encode_delimited(3, resource["scope"].encode()) + encode_delimited(
        4, resource["singularResource"].encode()
    )
    parts += _string_fields(5, resource["verbs"]) + _string_fields(6, resource.get("shortNames"))
    parts += _string_fields(7, resource.get("categories"))
    for sub in resource.get("subresources") or ():
        inner = encode_delimited(1, sub["subresource"].encode()) + encode_delimited(
            2, _encode_kind(sub["responseKind"])
        )
        parts += encode_delimited(8, inner + _string_fields(4, sub["verbs"]))
    return parts
