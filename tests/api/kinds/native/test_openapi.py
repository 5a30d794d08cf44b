import pytest

from trimtab.api.kinds.native import openapi


def test_kind_schema_has_its_group_version_kind_and_references() -> None:
    schema = openapi.component("io.k8s.api.apps.v1.Deployment")
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "apps", "version": "v1", "kind": "Deployment"}]
    assert schema["properties"]["metadata"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    ]


def test_list_schemas_contain_their_merge_keys() -> None:
    ports = openapi.component("io.k8s.api.core.v1.Container")["properties"]["ports"]
    assert ports["x-kubernetes-list-type"] == "map"
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"


def test_allowed_values_are_published() -> None:
    spec = openapi.component("io.k8s.api.policy.v1.PodDisruptionBudgetSpec")
    assert spec["properties"]["unhealthyPodEvictionPolicy"]["enum"] == ["AlwaysAllow", "IfHealthyBudget"]


def test_components_contain_all_referenced_schemas() -> None:
    found = openapi.components(["io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.PodList"])
    assert "io.k8s.api.core.v1.PodSpec" in found
    assert "io.k8s.apimachinery.pkg.api.resource.Quantity" in found


def test_unknown_component_raises_key_error() -> None:
    with pytest.raises(KeyError):
        openapi.component("io.k8s.api.core.v1.Frob")


def test_message_without_fields_has_no_empty_properties() -> None:
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceStatus"
    assert "properties" not in openapi.component(name)
