"""Kinds defined by CustomResourceDefinitions."""

import asyncio
import json

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.api.schema.structural_check import RuleFault
from trimtab.client.client import Resource
from trimtab.runtime.declarations import load_declarations
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.server.registry.crds import schema_validator
from trimtab.store.store import Store


def gizmo_definition() -> dict:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"size": {"type": "integer", "default": 3, "maximum": 9}},
                "x-kubernetes-validations": [{"rule": "self.size != 7", "message": "seven is not allowed"}],
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gizmos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gizmos", "kind": "Gizmo", "shortNames": ["gz"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                }
            ],
        },
    }


def test_custom_kind_is_served_validated_and_removed() -> None:
    async def scenario(wire: AsgiClient) -> None:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        gizmos = "/apis/example.com/v1/namespaces/default/gizmos"
        assert (await wire("POST", definitions, gizmo_definition())).status == 201
        await asyncio.sleep(0.1)
        conditions = (await wire("GET", f"{definitions}/gizmos.example.com")).json()["status"]["conditions"]
        assert {c["type"]: c["status"] for c in conditions} == {"NamesAccepted": "True", "Established": "True"}
        head = {"apiVersion": "example.com/v1", "kind": "Gizmo"}
        created = await wire("POST", gizmos, {**head, "metadata": {"name": "g"}, "spec": {"junk": 1}})
        assert created.json()["spec"] == {"size": 3}
        refused = await wire("POST", gizmos, {**head, "metadata": {"name": "h"}, "spec": {"size": 12}})
        assert "should be less than or equal to 9" in refused.json()["message"]
        broken_rule = await wire("POST", gizmos, {**head, "metadata": {"name": "h"}, "spec": {"size": 7}})
        assert broken_rule.json()["details"]["causes"][0]["message"] == "Invalid value: seven is not allowed"
        table = await wire("GET", gizmos, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        assert table.json()["rows"][0]["cells"] == ["g", 3]
        await wire("DELETE", f"{definitions}/gizmos.example.com")
        await asyncio.sleep(0.1)
        assert (await wire("GET", gizmos)).body == b"404 page not found\n"

    with_asgi_client(scenario)


def test_new_kind_changes_the_etags_of_discovery_documents() -> None:
    async def scenario(wire: AsgiClient) -> None:
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        first = await wire("GET", "/apis", accept=accept)
        again = await wire("GET", "/apis", accept=accept, if_none_match=first.headers["etag"])
        assert again.status == 304
        index = await wire("GET", "/openapi/v3")
        await wire("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", gizmo_definition())
        await asyncio.sleep(0.1)
        changed = await wire("GET", "/apis", accept=accept, if_none_match=first.headers["etag"])
        assert (changed.status, b"gizmos" in changed.body) == (200, True)
        added = set((await wire("GET", "/openapi/v3")).json()["paths"]) - set(index.json()["paths"])
        assert added == {"apis/example.com/v1"}

    with_asgi_client(scenario)


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"pattern": "(?=a)"}, "pattern"),
        ({"x-kubernetes-validations": [{"rule": "self.size =="}]}, "x-kubernetes-validations[0].rule"),
        ({"x-kubernetes-validations": [{"rule": "unknown(self)"}]}, "x-kubernetes-validations[0].rule"),
        ({"x-kubernetes-validations": [{"rule": "1 + 1"}]}, "x-kubernetes-validations[0].rule"),
        ({"x-kubernetes-validations": [{"rule": "self > 1"}]}, "x-kubernetes-validations[0].rule"),
        (
            {"x-kubernetes-validations": [{"rule": "true", "messageExpression": "nothing +"}]},
            "x-kubernetes-validations[0].messageExpression",
        ),
    ],
)
def test_definition_with_an_expression_that_cannot_be_enforced_is_refused(part: dict, field: str) -> None:
    pytest.importorskip("cel_expr_python")

    async def scenario(wire: AsgiClient) -> None:
        definition = gizmo_definition()
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["name"] = {
            "type": "string",
            **part,
        }
        refused = await wire("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        assert (refused.status, refused.json()["reason"]) == (422, "Invalid")
        (cause,) = refused.json()["details"]["causes"]
        assert cause["field"] == f"spec.validation.openAPIV3Schema.properties[name].{field}"

    with_asgi_client(scenario)


def test_pattern_with_unicode_classes_is_enforced() -> None:
    async def scenario(wire: AsgiClient) -> None:
        definition = gizmo_definition()
        properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        properties["name"] = {"type": "string", "pattern": r"^\p{L}+$"}
        assert (await wire("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)).status == 201
        await asyncio.sleep(0.1)
        gizmos = "/apis/example.com/v1/namespaces/default/gizmos"
        head = {"apiVersion": "example.com/v1", "kind": "Gizmo"}
        assert (await wire("POST", gizmos, {**head, "metadata": {"name": "a"}, "name": "é日"})).status == 201
        refused = await wire("POST", gizmos, {**head, "metadata": {"name": "b"}, "name": "1"})
        assert refused.status == 422
        assert r"should match '^\p{L}+$'" in refused.json()["message"]

    with_asgi_client(scenario)


def test_definition_stored_before_a_check_existed_still_gets_its_status() -> None:
    old = gizmo_definition()
    old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["name"] = {"type": "string", "pattern": "("}
    validate = schema_validator(lambda *_: None)
    assert validate({**old, "status": {}}, old) == []
    assert [cause.field for cause in validate(old, None)] == [
        "spec.validation.openAPIV3Schema.properties[name].pattern"
    ]


@pytest.mark.parametrize("levels", [20, 60, 95])
def test_deeply_nested_definition_is_served_and_a_deeper_one_is_refused(levels: int) -> None:
    async def scenario(wire: AsgiClient) -> None:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        gizmos = "/apis/example.com/v1/namespaces/default/gizmos"

        def nested(depth: int) -> dict:
            definition = gizmo_definition()
            inner: dict = {"type": "string", "default": "x"}
            for _ in range(depth):
                inner = {"type": "object", "properties": {"a": inner}}
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["deep"] = inner
            return definition

        created = await wire("POST", definitions, nested(levels - 5))
        assert created.status == 201, created.body[:300]
        await asyncio.sleep(0.1)
        value: object = "y"
        for _ in range(levels - 5):
            value = {"a": value}
        gizmo = {"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "g"}, "deep": value}
        assert (await wire("POST", gizmos, gizmo)).status == 201
        assert (await wire("GET", gizmos)).json()["items"][0]["deep"] == value
        assert (await wire("POST", definitions, json.dumps(nested(levels + 100)).encode())).status == 400

    with_asgi_client(scenario)


def test_member_serves_a_kind_of_the_control_plane_when_its_definition_is_applied() -> None:
    async def run() -> None:
        load_declarations()
        host = ApiServer(Store())
        await host.start()
        member = ApiServer(Store(), ApiServerSettings(serves=lambda kind: not kind.custom))
        await member.start()
        name = "serviceexports.multicluster.x-k8s.io"
        crds = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
        definition = await LocalClient(host).get(crds, "", name)
        client = LocalClient(member)
        body = {"metadata": {"name": name}, "spec": definition["spec"]}
        await client.create(crds, {"apiVersion": "apiextensions.k8s.io/v1", "kind": crds.kind, **body})
        await asyncio.sleep(0.2)
        assert "serviceexports" in {resource.plural for resource in await client.resources()}
        await host.stop()
        await member.stop()

    asyncio.run(run())


def test_defaults_that_are_added_later_appear_when_stored_objects_are_read() -> None:
    async def scenario(wire: AsgiClient) -> None:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        gizmos = "/apis/example.com/v1/namespaces/default/gizmos"
        definition = gizmo_definition()
        properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        await wire("POST", definitions, definition)
        await asyncio.sleep(0.1)
        body = {"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "g"}, "spec": {"size": 1}}
        await wire("POST", gizmos, body)
        properties["colour"] = {"type": "string", "default": "red"}
        patch = {"spec": definition["spec"]}
        name = f"{definitions}/gizmos.example.com"
        assert (await wire("PATCH", name, patch, content_type="application/merge-patch+json")).status == 200
        await asyncio.sleep(0.1)
        assert (await wire("GET", f"{gizmos}/g")).json()["spec"] == {"size": 1, "colour": "red"}
        (item,) = (await wire("GET", gizmos)).json()["items"]
        assert item["spec"]["colour"] == "red"

    with_asgi_client(scenario)


def test_requests_to_a_deprecated_version_are_warned() -> None:
    async def scenario(wire: AsgiClient) -> None:
        definition = gizmo_definition()
        (version,) = definition["spec"]["versions"]
        older = {**version, "name": "v1beta1", "storage": False, "deprecated": True}
        definition["spec"]["versions"] = [version, older, {**older, "name": "v1alpha1", "deprecationWarning": "use v1"}]
        await wire("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await asyncio.sleep(0.1)
        answers = {
            name: (await wire("GET", f"/apis/example.com/{name}/gizmos")).headers.get("warning", "")
            for name in ("v1", "v1beta1", "v1alpha1")
        }
        assert answers == {
            "v1": "",
            "v1beta1": '299 - "example.com/v1beta1 Gizmo is deprecated"',
            "v1alpha1": '299 - "use v1"',
        }

    with_asgi_client(scenario)


def test_rules_are_checked_against_the_schema_and_its_sizes() -> None:
    pytest.importorskip("cel_expr_python")
    unknown = {"type": "object", "properties": {"x": {"type": "integer"}}}
    unknown["x-kubernetes-validations"] = [{"rule": "self.z == 100"}]
    mixed = {**unknown, "x-kubernetes-validations": [{"rule": "self.x + 'text'"}]}
    inner = {"type": "array", "items": {"type": "string"}}
    inner["x-kubernetes-validations"] = [{"rule": "self.all(s, s == 'text')"}]

    async def scenario(wire: AsgiClient) -> None:
        for part, reason in (
            (unknown, "undefined field 'z'"),
            (mixed, "found no matching overload for '_+_' applied to '(int, string)'"),
            (
                {"type": "array", "items": inner},
                "rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x",
            ),
            (
                {
                    "type": "array",
                    "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
                },
                "oldSelf cannot be used on the uncorrelatable portion of the schema within ",
            ),
        ):
            definition = gizmo_definition()
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["part"] = part
            refused = await wire("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            assert refused.status == 422
            assert reason in refused.json()["message"]

    with_asgi_client(scenario)


def test_rule_that_takes_too_many_steps_for_an_object_is_refused() -> None:
    pytest.importorskip("cel_expr_python")

    async def scenario(wire: AsgiClient) -> None:
        definition = gizmo_definition()
        spec = {"type": "object", "properties": {"a": {"type": "array", "maxItems": 725, "items": {"type": "integer"}}}}
        spec["x-kubernetes-validations"] = [{"rule": "self.a.all(x, self.a.all(y, y == x))"}]
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
        await wire("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await asyncio.sleep(0.1)
        gizmo = {"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "g"}}
        path = "/apis/example.com/v1/namespaces/default/gizmos"
        assert (await wire("POST", path, {**gizmo, "spec": {"a": [20] * 50}})).status == 201
        gizmo["metadata"] = {"name": "h"}
        refused = await wire("POST", path, {**gizmo, "spec": {"a": [20] * 725}})
        assert "call cost exceeds limit" in refused.json()["message"]

    with_asgi_client(scenario)


def test_definition_found_valid_is_not_checked_again_but_every_other_one_is() -> None:
    checked: list[str] = []

    def check_rule(rule: str, *_: object) -> RuleFault | None:
        checked.append(rule)
        return RuleFault("refused") if "refused" in rule else None

    definition = gizmo_definition()
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"][0]["rule"] = "self.size != 61"
    validate = schema_validator(check_rule)
    assert validate(definition, None) == []
    assert schema_validator(check_rule)(definition, None) == []
    assert checked == ["self.size != 61"]
    spec["x-kubernetes-validations"][0]["rule"] = "refused"
    assert validate(definition, None)
    assert validate(definition, None)
    assert checked == ["self.size != 61", "refused", "refused"]
