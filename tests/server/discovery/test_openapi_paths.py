"""The paths section of OpenAPI documents."""

from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.discovery.openapi_paths import ResourcePaths
from trimtab.server.resources import ServedResource
from trimtab.store.store import Store


def served(group: str, version: str, resource: str) -> ServedResource:
    found = ApiServer(Store(), ApiServerSettings()).catalogue.find(group, version, resource)
    assert found is not None
    return found


def test_namespaced_resource_has_collection_object_and_subresource_paths() -> None:
    paths = ResourcePaths(served("apps", "v1", "deployments")).paths()
    collection = "/apis/apps/v1/namespaces/{namespace}/deployments"
    assert {collection, f"{collection}/{{name}}", f"{collection}/{{name}}/scale", "/apis/apps/v1/deployments"} <= set(
        paths
    )
    assert paths[collection]["post"]["operationId"] == "createAppsV1NamespacedDeployment"
    assert "listAppsV1DeploymentForAllNamespaces" in str(paths["/apis/apps/v1/deployments"])


def test_custom_resource_has_no_strategic_merge_patch() -> None:
    path = "/namespaces/{namespace}"
    custom = ResourcePaths(served("policy.karmada.io", "v1alpha1", "propagationpolicies")).paths()
    native = ResourcePaths(served("", "v1", "configmaps")).paths()
    bodies = [
        custom[f"/apis/policy.karmada.io/v1alpha1{path}/propagationpolicies/{{name}}"]["patch"]["requestBody"],
        native[f"/api/v1{path}/configmaps/{{name}}"]["patch"]["requestBody"],
    ]
    strategic = "application/strategic-merge-patch+json"
    assert [strategic in body["content"] for body in bodies] == [False, True]
