"""Stored and wire forms of objects."""

import base64

import orjson
import pytest

from server.asgi import AsgiClient, with_asgi_client
from server.config_maps import CONFIG_MAPS, create_config_maps
from trimtab.api.kind import Kind
from trimtab.api.limits import MAX_OBJECT_BYTES, MAX_OBJECT_NODES
from trimtab.api.value import Object
from trimtab.errors import TooLarge
from trimtab.server.resources import ServedResource
from trimtab.server.storage.object_codec import (
    RecentWrites,
    decode_event,
    encode_item,
    encode_object,
    event_memo,
    labels_of,
    pack,
    unpack,
    written_metadata,
)
from trimtab.store.records import StoredEntry, StoreEvent

POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
GIZMO = {
    "apiVersion": "example.com/v1",
    "kind": "Gizmo",
    "metadata": {"name": "g", "labels": {"a": "b"}, "resourceVersion": "7"},
    "spec": {"size": 3},
}


def gizmos() -> ServedResource:
    return ServedResource(
        Kind(Object, group="example.com", version="v1", name="Gizmo", plural="gizmos"), "v1", schema=dict
    )


def test_stored_form_omits_type_and_version_and_starts_with_metadata() -> None:
    stored = pack(GIZMO)
    assert stored.startswith(b'{"metadata":{')
    assert orjson.loads(stored) == {"metadata": {"name": "g", "labels": {"a": "b"}}, "spec": {"size": 3}}


def test_stored_object_is_sent_with_type_and_version() -> None:
    served, stored = gizmos(), pack(GIZMO)
    assert unpack(served, stored, 7) == GIZMO
    assert orjson.loads(encode_object(served, stored, 7)) == GIZMO
    assert orjson.loads(encode_item(served, StoredEntry("/k", stored, 7, 7))) == GIZMO


def test_labels_are_read_without_the_rest() -> None:
    assert labels_of(pack(GIZMO)) == {"a": "b"}
    assert labels_of(b'{"metadata":{"name":"g"}}') == {}


def test_protobuf_is_sent_to_clients_that_prefer_it() -> None:
    async def scenario(wire: AsgiClient) -> None:
        await create_config_maps(wire, 1)
        accept = {"accept": "application/vnd.kubernetes.protobuf,application/json"}
        response = await wire("GET", f"{CONFIG_MAPS}/c0", **accept)
        assert (response.headers["content-type"], response.body[:4]) == (
            "application/vnd.kubernetes.protobuf",
            b"k8s\0",
        )
        assert (await wire("GET", POLICIES, **accept)).headers["content-type"] == "application/json"

    with_asgi_client(scenario)


def test_string_data_of_secrets_is_stored_as_base64() -> None:
    async def scenario(wire: AsgiClient) -> None:
        path = "/api/v1/namespaces/default/secrets"
        response = await wire("POST", path, {"metadata": {"name": "s"}, "stringData": {"k": "v"}})
        assert base64.b64decode(response.json()["data"]["k"]) == b"v"

    with_asgi_client(scenario)


def test_object_beyond_a_limit_is_not_stored() -> None:
    deep: object = 1
    for _ in range(300):
        deep = [deep]
    large = {"text": "x" * MAX_OBJECT_BYTES}
    many = {"list": [0] * (MAX_OBJECT_NODES + 1)}
    for spec, why in (({"deep": deep}, "cannot be stored"), (large, "bytes"), (many, "values")):
        with pytest.raises(TooLarge, match=why):
            pack({**GIZMO, "spec": spec})
    assert pack({**GIZMO, "spec": {"text": "," * (MAX_OBJECT_NODES + 1)}})


def test_objects_that_are_kept_decoded_are_limited_in_number() -> None:
    recent, served = RecentWrites(2), gizmos()
    entries = []
    for revision in range(2, 5):
        key = f"/registry/core/configmaps/default/c{revision}"
        entries.append(StoredEntry(key, pack({"metadata": {"name": f"c{revision}"}}), revision, revision))
        recent.add(served, StoreEvent(key, revision, entries[-1], None))
    kept = [recent.decode(served, entry) is recent.decode(served, entry) for entry in entries]
    assert kept == [False, True, True]


def test_objects_that_are_kept_decoded_are_limited_in_bytes() -> None:
    recent, served = RecentWrites(512), gizmos()
    for revision in range(2, 30):
        value = pack({"metadata": {"name": f"c{revision}"}, "data": {"k": "x" * 400_000}})
        key = f"/registry/core/configmaps/default/c{revision}"
        recent.add(served, StoreEvent(key, revision, StoredEntry(key, value, revision, revision), None))
    assert 3_000_000 < recent.size <= 4 * 1024 * 1024
    newest = StoredEntry(key, value, revision, revision)
    assert recent.decode(served, newest) is recent.decode(served, newest)
    recent.add(served, StoreEvent(key, revision + 1, None, newest))
    assert recent.size < 4 * 1024 * 1024 - 300_000


def test_metadata_of_a_written_object_is_known_without_decoding_it() -> None:
    entry = StoredEntry("k", pack(GIZMO), 7, 7)
    assert written_metadata(StoreEvent("k", 7, entry, None, event_memo(gizmos(), GIZMO))) is GIZMO["metadata"]
    assert written_metadata(StoreEvent("k", 7, entry, None, {"raw v1": GIZMO})) is None
    assert written_metadata(StoreEvent("k", 7, entry, None)) is None


def test_written_object_is_shared_in_its_version_only() -> None:
    stored, served = pack(GIZMO), gizmos()
    other = ServedResource(served.kind, "v2", schema=dict)
    event = StoreEvent("k", 7, StoredEntry("k", stored, 7, 7), None, event_memo(served, GIZMO))
    found = decode_event(event, served)
    assert found == GIZMO
    assert found["spec"] is GIZMO["spec"]
    assert decode_event(event, served) is found
    assert decode_event(event, other) == {**GIZMO, "apiVersion": "example.com/v2"}
