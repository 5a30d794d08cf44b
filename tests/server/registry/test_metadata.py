"""Validation of metadata."""

from typing import Any

import pytest

from trimtab.server.registry.metadata import finalizer_warnings, metadata_causes, update_causes


def fields(metadata: dict[str, Any], kind_id: str = "configmaps") -> list[str]:
    return [cause.field for cause in metadata_causes(metadata, kind_id)]


@pytest.mark.parametrize(
    ("metadata", "invalid"),
    [
        ({"name": "a.b"}, []),
        ({"name": "A"}, ["metadata.name"]),
        ({}, ["metadata.name"]),
        ({"name": "a", "labels": {"a b": "c"}}, ["metadata.labels"]),
        ({"name": "a", "annotations": {"k": "x" * (256 * 1024)}}, ["metadata.annotations"]),
        ({"name": "a", "finalizers": ["no-domain"]}, ["metadata.finalizers"]),
        (
            {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            ["metadata.ownerReferences[0].uid"],
        ),
    ],
)
def test_each_part_of_the_metadata_is_validated(metadata: dict[str, Any], invalid: list[str]) -> None:
    assert fields(metadata) == invalid


def test_names_of_roles_may_contain_anything_but_path_separators() -> None:
    role = "roles.rbac.authorization.k8s.io"
    assert fields({"name": "system:Node A"}, role) == []
    for name in ("a/b", "a%2Fb", ".", ".."):
        assert fields({"name": name}, role) == ["metadata.name"]
    assert fields({"name": "a.b"}, "namespaces") == ["metadata.name"]


def test_only_one_owner_may_be_the_controller() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    assert fields({"name": "a", "ownerReferences": [owner, owner]}) == ["metadata.ownerReferences"]


def test_custom_resources_may_have_finalizers_without_a_domain_with_a_warning() -> None:
    metadata = {"name": "a", "finalizers": ["test", "foregroundDeletion", "a.io/b"]}
    assert metadata_causes(metadata, "widgets.example.com", custom=True) == []
    assert update_causes(metadata, {"name": "a"}, "widgets.example.com", custom=True) == []
    (warning,) = finalizer_warnings(metadata)
    assert warning.startswith('metadata.finalizers: "test": prefer a domain-qualified finalizer name')
    assert finalizer_warnings(metadata, metadata) == []
    (cause,) = metadata_causes({"name": "a", "finalizers": ["no spaces"]}, "widgets.example.com", custom=True)
    assert cause.field == "metadata.finalizers"


def test_finalizers_cannot_be_added_during_deletion() -> None:
    old = {"name": "a", "deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["a.io/b"]}
    assert update_causes({**old, "finalizers": []}, old, "configmaps") == []
    (cause,) = update_causes({**old, "finalizers": ["a.io/b", "a.io/c"]}, old, "configmaps")
    assert "no new finalizers can be added if the object is being deleted" in cause.message
