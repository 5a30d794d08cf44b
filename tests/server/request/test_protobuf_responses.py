"""Protobuf encoding of responses."""

import struct

from trimtab.api import protobuf
from trimtab.server.request.protobuf_responses import (
    encode_object,
    encode_watch_event,
    protobuf_list_parts,
    protobuf_response,
)

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}


def test_object_can_be_decoded_again() -> None:
    response = protobuf_response(201, CONFIG_MAP)
    assert (response.code, response.media_type) == (201, "application/vnd.kubernetes.protobuf")
    assert protobuf.decode(response.body, api_version="v1", kind="ConfigMap")["data"] == {"k": "v"}


def test_partial_object_metadata_keeps_its_own_kind() -> None:
    partial = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "a"}}
    assert b"PartialObjectMetadata" in encode_object(partial)
    assert b"ConfigMap" not in encode_object(partial)


def test_list_contains_its_items_and_revision() -> None:
    head = {"apiVersion": "v1", "kind": "ConfigMapList"}
    body = b"".join(protobuf_list_parts(head, {"resourceVersion": "42"}, [CONFIG_MAP, CONFIG_MAP]))
    assert body.startswith(protobuf.MAGIC)
    assert b"42" in body
    assert body.count(protobuf.decode_envelope(encode_object(CONFIG_MAP)).raw) == 2


def test_watch_event_has_its_length_in_front() -> None:
    frame = encode_watch_event("ADDED", encode_object(CONFIG_MAP))
    assert struct.unpack(">I", frame[:4])[0] == len(frame) - 4
    assert b"ADDED" in frame
