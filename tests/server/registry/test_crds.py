"""Kinds defined by CustomResourceDefinitions."""

import asyncio

from server.asgi import AsgiClient, with_asgi_client


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
