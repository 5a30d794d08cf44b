"""The catalogue of served resources."""

import pytest

from trimtab.api.kind import Kind
from trimtab.api.value import Object
from trimtab.server.resources import ObjectPath, ResourceCatalogue, ServedResource, version_rank


def resource(
    version: str, *, custom: bool = True, group: str = "example.com", plural: str = "gizmos"
) -> ServedResource:
    kind = Kind(Object, group=group, version=version, name="Gizmo", plural=plural, custom=custom)
    return ServedResource(kind, version, schema=dict)


def test_versions_are_preferred_in_the_order_of_kubernetes() -> None:
    versions = ["foo", "v1alpha1", "v1beta2", "v1", "v1beta10", "v2"]
    assert sorted(versions, key=version_rank) == ["v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]


def test_catalogue_finds_resources_by_group_version_kind_and_preference() -> None:
    catalogue = ResourceCatalogue()
    old, new = resource("v1beta1"), resource("v1")
    for served in (old, new):
        catalogue.add(served)
    assert catalogue.find("example.com", "v1beta1", "gizmos") is old
    assert catalogue.find_kind("example.com/v1", "Gizmo") is new
    assert catalogue.find_preferred("example.com", "gizmos") is new
    assert catalogue.versions("example.com") == ["v1", "v1beta1"]
    assert catalogue.stored_resources() == [new]


def test_every_change_of_the_catalogue_is_counted() -> None:
    catalogue = ResourceCatalogue()
    catalogue.add(resource("v1"))
    catalogue.remove("example.com", "widgets")
    assert catalogue.changes == 1
    catalogue.remove("example.com", "gizmos")
    assert (catalogue.changes, list(catalogue)) == (2, [])


def test_built_in_groups_come_first() -> None:
    catalogue = ResourceCatalogue()
    catalogue.add(resource("v1", group="a.example.com"))
    catalogue.add(resource("v1", group="apps", custom=False))
    assert catalogue.groups() == ["apps", "a.example.com"]


@pytest.mark.parametrize(
    ("group", "prefix"), [("example.com", "/registry/example.com/gizmos/"), ("", "/registry/core/gizmos/")]
)
def test_keys_are_below_the_prefix_of_the_resource(group: str, prefix: str) -> None:
    served = resource("v1", group=group)
    assert served.collection_prefix("") == prefix
    assert served.collection_prefix("team") == f"{prefix}team/"
    assert ObjectPath(served, "team", "g").key == f"{prefix}team/g"


def test_what_the_catalogue_derives_is_computed_once_after_a_change() -> None:
    catalogue = ResourceCatalogue()
    catalogue.add(*(resource(f"v{number + 1}") for number in range(3)))
    assert catalogue.changes == 1
    before = [catalogue.groups(), catalogue.versions("example.com"), catalogue.resources("example.com", "v2")]
    after = [catalogue.groups(), catalogue.versions("example.com"), catalogue.resources("example.com", "v2")]
    assert all(one is other for one, other in zip(before, after, strict=True))
    catalogue.add(resource("v9"))
    assert catalogue.versions("example.com") == ["v9", "v3", "v2", "v1"]


def test_kind_is_found_in_another_version() -> None:
    catalogue = ResourceCatalogue()
    served = resource("v1")
    catalogue.add(served)
    assert catalogue.find_kind("example.com/v2", "Gizmo") is None
    assert catalogue.find_kind_in_any_version("example.com", "Gizmo") is served
