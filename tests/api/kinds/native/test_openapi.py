import pytest

from trimtab.api.kinds.native import merge_keys, openapi
from trimtab.api.kinds.native.fields import known, message


def test_a_kind_says_what_it_is_and_where_its_parts_are() -> None:
    schema = openapi.component("io.k8s.api.apps.v1.Deployment")
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "apps", "version": "v1", "kind": "Deployment"}]
    assert schema["properties"]["metadata"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    ]


def test_lists_say_how_they_merge() -> None:
    ports = openapi.component("io.k8s.api.core.v1.Container")["properties"]["ports"]
    assert ports["x-kubernetes-list-type"] == "map"
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"


def test_allowed_values_are_published() -> None:
    spec = openapi.component("io.k8s.api.policy.v1.PodDisruptionBudgetSpec")
    assert spec["properties"]["unhealthyPodEvictionPolicy"]["enum"] == ["AlwaysAllow", "IfHealthyBudget"]


def test_every_reference_can_be_followed() -> None:
    found = openapi.components(["io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.PodList"])
    assert "io.k8s.api.core.v1.PodSpec" in found
    assert "io.k8s.apimachinery.pkg.api.resource.Quantity" in found


def test_what_is_not_there_is_not_described() -> None:
    with pytest.raises(KeyError):
        openapi.component("io.k8s.api.core.v1.Frob")


def test_every_trait_speaks_of_a_field_that_exists() -> None:
    paths = [f"{owner}.{field}" for owner, fields in merge_keys.merges().items() for field in fields]
    for path in [*paths, *merge_keys.enums(), *merge_keys.ATOMIC_MAPS, *merge_keys.GRANULAR_FIELDS]:
        owner, _, field = path.rpartition(".")
        assert field in message(owner).json, path
    assert all(known(name) for name in merge_keys.ATOMIC_MESSAGES)
