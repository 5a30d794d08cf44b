"""Large objects are processed in a thread, while the event loop goes on."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.api.kinds.native import codec
from trimtab.api.limits import MAX_JSON_BYTES_IN_LOOP, MAX_VALUES_IN_LOOP
from trimtab.api.schema.structural import StructuralSchema
from trimtab.server.discovery import openapi
from trimtab.server.registry import object_commits, object_preparation, object_schema, patch_requests
from trimtab.server.request import body_decoding, large_objects

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DATA = {f"k{number}": "v" for number in range(MAX_VALUES_IN_LOOP + 10)}
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": DATA}
FUNCTIONS = [
    (codec, "read"),
    (object_schema, "track_update"),
    (patch_requests, "apply"),
    (patch_requests, "apply_merge_patch"),
    (patch_requests, "apply_json_patch"),
    (patch_requests, "apply_strategic_patch"),
    (patch_requests, "load_json"),
    (object_preparation, "metadata_causes"),
    (object_preparation, "update_causes"),
    (object_commits, "pack"),
]


def size_of(value: Any) -> int:
    """The values of an object, of its metadata or of an encoded body."""
    if isinstance(value, bytes):
        return value.count(b",")
    return (
        sum(len(part) for part in (value, *value.values()) if isinstance(part, dict)) if isinstance(value, dict) else 0
    )


@pytest.fixture
def slow_in_loop(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that processed something large in the event loop."""
    found: list[str] = []

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            is_large = any(size_of(one) > MAX_VALUES_IN_LOOP for one in arguments)
            if is_large and threading.current_thread() is threading.main_thread():
                found.append(name)
            return function(*arguments, **options)

        return call

    for module, name in FUNCTIONS:
        monkeypatch.setattr(module, name, noting(name, getattr(module, name)))
    return found


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/merge-patch+json", {"data": {"one": "more"}}),
        ("application/strategic-merge-patch+json", {"data": {"one": "more"}}),
        ("application/json-patch+json", [{"op": "add", "path": "/data/one", "value": "more"}]),
        ("application/apply-patch+yaml", {**OBJECT, "data": {"one": "more"}}),
    ],
)
def test_create_and_change_of_a_large_object_run_outside_of_the_event_loop(
    slow_in_loop: list[str], media: str, body: Any
) -> None:
    async def scenario(client: AsgiClient) -> None:
        assert (await client("POST", CONFIG_MAPS, OBJECT)).status == 201
        path = f"{CONFIG_MAPS}/big?fieldManager=m&force=true" if "apply" in media else f"{CONFIG_MAPS}/big"
        changed = await client("PATCH", path, body, content_type=media)
        assert changed.status == 200
        assert changed.json()["data"]["one"] == "more"
        replaced = await client("PUT", f"{CONFIG_MAPS}/big", {**OBJECT, "data": {**DATA, "two": "x"}})
        assert replaced.json()["data"]["two"] == "x"

    with_asgi_client(scenario)
    assert slow_in_loop == []


def test_applied_large_object_is_created_outside_of_the_event_loop(slow_in_loop: list[str]) -> None:
    async def scenario(client: AsgiClient) -> None:
        path = f"{CONFIG_MAPS}/big?fieldManager=m"
        assert (await client("PATCH", path, OBJECT, content_type="application/apply-patch+yaml")).status == 201

    with_asgi_client(scenario)
    assert slow_in_loop == []


@pytest.mark.parametrize("media", ["application/merge-patch+json", "application/strategic-merge-patch+json"])
def test_large_patch_is_decoded_outside_of_the_event_loop(slow_in_loop: list[str], media: str) -> None:
    async def scenario(client: AsgiClient) -> None:
        await client("POST", CONFIG_MAPS, {**OBJECT, "data": {}})
        assert (await client("PATCH", f"{CONFIG_MAPS}/big", {"data": DATA}, content_type=media)).status == 200

    with_asgi_client(scenario)
    assert slow_in_loop == []


def test_large_metadata_are_checked_outside_of_the_event_loop(slow_in_loop: list[str]) -> None:
    async def scenario(client: AsgiClient) -> None:
        body = {**OBJECT, "metadata": {"name": "big", "labels": DATA}, "data": {}}
        assert (await client("POST", CONFIG_MAPS, body)).status == 201
        body["metadata"]["labels"] = {**DATA, "more": "x"}
        assert (await client("PUT", f"{CONFIG_MAPS}/big", body)).status == 200

    with_asgi_client(scenario)
    assert slow_in_loop == []


@pytest.mark.parametrize("text", [b"\\ud800", b"\\n", b'\\"', b"[{,:", b"x"])
def test_body_with_few_values_and_many_bytes_is_decoded_outside_of_the_event_loop(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    load_json = body_decoding.load_json

    def noting(body: bytes) -> Any:
        threads.append(threading.current_thread())
        return load_json(body)

    monkeypatch.setattr(body_decoding, "load_json", noting)

    async def scenario(client: AsgiClient) -> None:
        value = text * (MAX_JSON_BYTES_IN_LOOP // len(text) + 1)
        body = b'{"metadata":{"name":"long"},"data":{"k":"%b"}}' % value
        created = await client("POST", CONFIG_MAPS, body, content_type="application/json")
        assert created.status == 201, created.body[:300]
        assert len(created.json()["data"]["k"]) == len(orjson.loads(b'"%b"' % value.replace(b"\\ud800", b"\\ufffd")))

    with_asgi_client(scenario)
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"])
def test_document_of_all_resources_is_built_once_and_outside_of_the_event_loop(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    compress = openapi._compress

    def noting(document: Any) -> Any:
        threads.append(threading.current_thread())
        return compress(document)

    monkeypatch.setattr(openapi, "_compress", noting)

    async def scenario(client: AsgiClient) -> None:
        assert (await client("GET", path)).status == 200
        count = len(threads)
        assert count
        assert (await client("GET", path)).status == 200
        assert len(threads) == count

    with_asgi_client(scenario)
    assert threading.main_thread() not in threads


def crd(**schema: Any) -> dict[str, Any]:
    names = {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"}
    schema = {"type": "object", "properties": {"a": {"type": "string", **schema}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    api_version, kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "gizmos.example.com"}, "spec": spec}


@pytest.mark.parametrize(
    "schema", [{"pattern": "^[a-z]+$"}, {"x-kubernetes-validations": [{"rule": "self.size() > 0"}]}]
)
def test_expressions_of_users_are_evaluated_outside_of_the_event_loop(
    schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    check = StructuralSchema.check

    def noting(structural: StructuralSchema, obj: Any, *arguments: Any) -> Any:
        if obj.get("kind") == "Gizmo":
            threads.append(threading.current_thread())
        return check(structural, obj, *arguments)

    monkeypatch.setattr(StructuralSchema, "check", noting)

    async def scenario(client: AsgiClient) -> None:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await client("POST", definitions, crd(**schema))).status == 201
        await asyncio.sleep(1)
        gizmos = "/apis/example.com/v1/namespaces/default/gizmos"
        body = {"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "g"}, "a": "x"}
        assert (await client("POST", gizmos, body)).status == 201
        merge = {"content_type": "application/merge-patch+json"}
        assert (await client("PATCH", f"{gizmos}/g", {"a": "y"}, **merge)).status == 200
        assert (await client("PATCH", f"{gizmos}/g", {"a": ""}, **merge)).status == 422

    with_asgi_client(scenario)
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("field", ["pattern", "rule"])
def test_many_expressions_of_a_definition_are_compiled_outside_of_the_event_loop(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    validate = object_schema.ObjectSchema.validate

    def noting(schema: Any, served: Any, obj: Any, old: Any, *arguments: Any) -> Any:
        if obj["metadata"]["name"] == "gizmos.example.com" and old is None:
            threads.append(threading.current_thread())
        return validate(schema, served, obj, old, *arguments)

    async def scenario(client: AsgiClient) -> None:
        monkeypatch.setattr(object_schema.ObjectSchema, "validate", noting)
        body = crd()
        rules = {number: {"x-kubernetes-validations": [{"rule": f"self.size() > {number}"}]} for number in range(30)}
        patterns = {number: {"pattern": f"a{number}"} for number in range(30)}
        fields = {
            f"f{number}": {"type": "string", **one} for number, one in (rules if field == "rule" else patterns).items()
        }
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = fields
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await client("POST", definitions, body)).status == 201

    with_asgi_client(scenario)
    assert threads
    assert threading.main_thread() not in threads


def test_refusal_of_a_large_object_is_the_same() -> None:
    async def scenario(client: AsgiClient) -> None:
        refused = await client("POST", CONFIG_MAPS, {**OBJECT, "data": {**DATA, "not allowed!": "x"}})
        assert refused.status == 422
        assert "not allowed!" in refused.json()["message"]
        wrong = await client("POST", CONFIG_MAPS, {**OBJECT, "data": {**DATA, "k": 1}})
        assert wrong.status == 400

    with_asgi_client(scenario)


def test_small_work_runs_in_the_event_loop() -> None:
    async def scenario() -> tuple[str, str]:
        small = await large_objects.run(False, lambda: threading.current_thread().name)
        return small, await large_objects.run(True, lambda: threading.current_thread().name)

    small, large = asyncio.run(scenario())
    assert small == threading.main_thread().name
    assert large != small


def test_number_of_values_decides() -> None:
    assert not large_objects.is_large(b'{"text": "' + b"," * 100_000 + b'"}')
    assert large_objects.is_large(b"[" + b"1," * 9000 + b"1]")


def test_values_of_a_decoded_object_decide() -> None:
    assert not large_objects.is_large_object({"a": [{}, {"b": ()}], "c": "text"})
    assert not large_objects.is_large_object({"data": dict.fromkeys(map(str, range(MAX_VALUES_IN_LOOP // 2)))})
    assert large_objects.is_large_object({"data": dict.fromkeys(map(str, range(MAX_VALUES_IN_LOOP)))})
    assert large_objects.is_large_object({"items": [{"a": [1, 2, 3]}] * MAX_VALUES_IN_LOOP})


def test_object_that_cannot_be_encoded_is_large() -> None:
    assert large_objects.is_large_object({"number": 1 << 70})
