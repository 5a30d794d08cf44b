"""OpenAPI documents."""

from collections.abc import Sequence

import pytest

from server.asgi import AsgiClient, with_asgi_client
from trimtab.api.value import Raw
from trimtab.server.discovery import openapi
from trimtab.server.resources import ServedResource


def test_index_links_to_documents_by_their_hash() -> None:
    async def scenario(client: AsgiClient) -> None:
        paths = (await client("GET", "/openapi/v3")).json()["paths"]
        response = await client("GET", paths["apis/apps/v1"]["serverRelativeURL"])
        assert (response.status, response.headers["cache-control"]) == (200, "public, immutable")
        schemas = response.json()["components"]["schemas"]
        assert "io.k8s.api.apps.v1.Deployment" in schemas

    with_asgi_client(scenario)


def test_outdated_hash_is_redirected() -> None:
    async def scenario(client: AsgiClient) -> None:
        response = await client("GET", "/openapi/v3/apis/apps/v1?hash=OLD")
        assert response.status == 301
        assert response.headers["location"].startswith("/openapi/v3/apis/apps/v1?hash=")

    with_asgi_client(scenario)


def test_custom_resource_has_its_schema_and_a_list_schema() -> None:
    async def scenario(client: AsgiClient) -> None:
        document = (await client("GET", "/openapi/v3/apis/policy.karmada.io/v1alpha1")).json()
        schemas = document["components"]["schemas"]
        name = "io.karmada.policy.v1alpha1.PropagationPolicy"
        assert schemas[f"{name}List"]["properties"]["items"]["items"] == {"$ref": f"#/components/schemas/{name}"}
        assert "spec" in schemas[name]["properties"]

    with_asgi_client(scenario)


def test_version_2_document_uses_definitions() -> None:
    async def scenario(client: AsgiClient) -> None:
        document = (await client("GET", "/openapi/v2")).json()
        assert document["swagger"] == "2.0"
        assert b"#/components/schemas/" not in (await client("GET", "/openapi/v2")).body

    with_asgi_client(scenario)


def test_version_2_document_has_paths_and_every_kind_in_json_and_protobuf() -> None:
    async def scenario(client: AsgiClient) -> None:
        document = (await client("GET", "/openapi/v2")).json()
        assert "get" in document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
        definition = document["definitions"]["io.k8s.api.apps.v1.Deployment"]
        assert definition["properties"]["spec"]["$ref"] == "#/definitions/io.k8s.api.apps.v1.DeploymentSpec"
        accept = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
        response = await client("GET", "/openapi/v2", **accept)
        assert response.headers["content-type"] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        assert b"io.k8s.api.apps.v1.DeploymentSpec" in response.body

    with_asgi_client(scenario)


def test_index_that_was_built_while_a_kind_was_removed_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    build = openapi._build_document

    async def scenario(client: AsgiClient) -> None:
        def build_during_a_change(resources: Sequence[ServedResource]) -> Raw:
            if resources[0].group == "storage.k8s.io":  # built after batch
                for resource in ("jobs", "cronjobs"):
                    client.server.catalogue.remove("batch", resource)
            return build(resources)

        monkeypatch.setattr(openapi, "_build_document", build_during_a_change)
        assert "apis/batch/v1" in (await client("GET", "/openapi/v3")).json()["paths"]
        assert "apis/batch/v1" not in (await client("GET", "/openapi/v3")).json()["paths"]

    with_asgi_client(scenario)
