"""Objects of every shape are accepted or refused with a reason; none crashes a validation."""

import asyncio
from typing import Any

import pytest
from schema_objects import SchemaCase, definitions, full_objects, generate_cases

from server.asgi import AsgiClient, with_asgi_client
from server.config_maps import CONFIG_MAPS
from trimtab.api.limits import MAX_BODY_BYTES
from trimtab.errors import ApiError
from trimtab.runtime.declarations import load_declarations
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.server.registry.object_schema import ObjectSchema, changed_part
from trimtab.server.resources import ResourceCatalogue
from trimtab.store.store import Store

DEFINITIONS = list(definitions())
METADATA = {
    "name": "a",
    "namespace": "b",
    "uid": "c",
    "resourceVersion": "7",
    "generation": 2,
    "labels": {"l": "m"},
    "annotations": {"n": "o"},
    "finalizers": ["p.example/q"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "r", "uid": "s", "controller": True}],
    "creationTimestamp": "2030-01-01T00:00:00Z",
    "deletionTimestamp": "2030-01-01T00:00:00Z",
}


def refusals_of(cases: list[SchemaCase]) -> list[ApiError | None]:
    """The refusal of each case, or None where it is accepted."""

    async def create_all() -> list[ApiError | None]:
        load_declarations()
        server = ApiServer(Store(), ApiServerSettings())
        await server.start()
        client = LocalClient(server)
        served = {(r.api_version, r.kind): r for r in await client.resources()}
        refusals: list[ApiError | None] = []
        for case in cases:
            try:
                await client.create(served[case.obj["apiVersion"], case.obj["kind"]], case.obj, dry_run=True)
                refusals.append(None)
            except ApiError as fault:
                refusals.append(fault)
        await server.stop()
        return refusals

    return asyncio.run(create_all())


def test_complete_object_of_every_kind_is_accepted() -> None:
    cases = [case for definition in DEFINITIONS for case in full_objects(definition)]
    refused = [f"{case.description}: {fault}" for case, fault in zip(cases, refusals_of(cases), strict=True) if fault]
    assert not refused, "\n".join(refused)


def test_typed_objects_have_only_fields_of_their_schema() -> None:
    """A server in the same process relies on it and does not look for unknown fields."""
    object_schema, served = ObjectSchema(), {(found.api_version, found.kind.name): found for found in full_catalogue()}
    for definition in DEFINITIONS:
        for case in full_objects(definition):
            resource = served[case.obj["apiVersion"], case.obj["kind"]]
            written = resource.kind.encode(resource.kind.decode({**case.obj, "metadata": METADATA}))
            assert object_schema.read(resource, written) == (written, []), case.description


def full_catalogue() -> ResourceCatalogue:
    load_declarations()
    return ApiServer(Store(), ApiServerSettings()).catalogue


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition["spec"]["names"]["kind"])
def test_object_with_one_wrong_field_is_accepted_or_refused(definition: dict[str, Any]) -> None:
    codes = {fault.code for fault in refusals_of(list(generate_cases(definition))) if fault}
    assert codes <= {400, 422}


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"", 400, "BadRequest"),
        (b"{", 400, "BadRequest"),
        (b"[]", 400, "BadRequest"),
        (b'{"kind": 5}', 400, "BadRequest"),
        (b'{"metadata":{"name":"\xff\xfe"}}', 422, "Invalid"),
        (b"[" * 100_000, 400, "BadRequest"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, 400, "BadRequest"),
        (b'{"metadata":{"name":"Bad_Name"}}', 422, "Invalid"),
        (b'{"metadata":{"name":"x"},"data":{"k":1}}', 400, "BadRequest"),
        (b'{"data":"' + b"x" * MAX_BODY_BYTES + b'"}', 413, "RequestEntityTooLarge"),
    ],
)
def test_bad_bodies_are_refused_with_a_status(body: bytes, status: int, reason: str) -> None:
    async def scenario(wire: AsgiClient) -> None:
        response = await wire("POST", CONFIG_MAPS, body, content_type="application/json")
        assert (response.status, response.json()["reason"]) == (status, reason)

    with_asgi_client(scenario)


@pytest.mark.parametrize(("validation", "status"), [("Strict", 400), ("Warn", 201), ("Ignore", 201), ("", 201)])
def test_unknown_fields_are_refused_warned_about_or_dropped(validation: str, status: int) -> None:
    async def scenario(wire: AsgiClient) -> None:
        body = b'{"metadata":{"name":"x"},"data":{"a":"1","a":"2"},"frob":1}'
        response = await wire("POST", f"{CONFIG_MAPS}?fieldValidation={validation}", body)
        assert response.status == status
        warnings = response.headers.get("warning", "")
        if validation in {"Warn", ""}:
            assert r'299 - "unknown field \"frob\""' in warnings
            assert r'299 - "duplicate field \"data.a\""' in warnings
        else:
            assert not warnings

    with_asgi_client(scenario)


def test_problems_of_a_typed_object_are_listed_in_the_order_of_its_body() -> None:
    async def scenario(wire: AsgiClient) -> None:
        spec = b'"spec":{"unknown":1,"replicas":2,"replicas":3,"selector":{},"selector":{},"further":1}'
        body = b'{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},' + spec + b"}"
        path = "/apis/apps/v1/namespaces/default/deployments?fieldValidation=Strict"
        refused = await wire("POST", path, body, content_type="application/json")
        listed = (
            'unknown field "spec.unknown", duplicate field "spec.replicas", duplicate field "spec.selector", '
            'unknown field "spec.further"'
        )
        assert f"strict decoding error: {listed}" in refused.json()["message"]

    with_asgi_client(scenario)


def test_changed_part_omits_members_that_are_the_same_objects() -> None:
    labels, spec = {"a": "b"}, {"size": 1}
    before = {"metadata": {"name": "n", "labels": labels}, "spec": spec, "status": {"ready": True}}
    after = {"metadata": {"name": "n", "labels": labels, "annotations": {}}, "spec": spec, "status": {"ready": True}}
    assert changed_part(after, before) == {"metadata": {"annotations": {}}, "status": {"ready": True}}
    assert changed_part({**before, "spec": None}, before) == {"spec": None}
