"""Ids, names and indexes that link the objects of one propagation."""

import uuid

import pytest
from builders import cluster_policy, policy

from trimtab.api.kind import key_of
from trimtab.api.kinds.work import ClusterResourceBinding, ResourceBinding, Work
from trimtab.api.value import Key, Meta
from trimtab.controllers import well_known
from trimtab.controllers.well_known import permanent_id

BINDING = ResourceBinding(metadata=Meta(namespace="demo", name="web"))
CLUSTER_BINDING = ClusterResourceBinding(metadata=Meta(name="web"))


@pytest.mark.parametrize("parts", [("one",), ("b1", "member-1"), ("größe", "Deployment", "web-deployment")])
def test_permanent_id_is_a_uuid_of_version_5(parts: tuple[str, ...]) -> None:
    assert permanent_id(*parts) == str(uuid.uuid5(uuid.UUID("6a1d7a39-5c7b-4f0e-9c53-0c2a3f0f8d11"), "/".join(parts)))


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({well_known.RB_NAMESPACE: "demo", well_known.RB_NAME: "web"}, key_of(BINDING)),
        ({well_known.CRB_NAME: "web"}, key_of(CLUSTER_BINDING)),
        ({}, None),
    ],
)
def test_annotations_of_work_name_its_binding(annotations: dict[str, str], expected: Key | None) -> None:
    assert well_known.binding_key_of_work(Work(metadata=Meta(name="w", annotations=annotations))) == expected


def test_policy_id_label_follows_the_scope_of_the_policy() -> None:
    assert well_known.policy_id_label(policy()) == well_known.PP_ID
    assert well_known.policy_id_label(cluster_policy()) == well_known.CPP_ID
    assert well_known.policy_id(policy("a")) == "id-a"


def test_cluster_name_is_the_suffix_of_its_execution_namespace() -> None:
    assert well_known.cluster_of(well_known.execution_namespace("m1")) == "m1"
    assert well_known.cluster_of("default") == ""


def test_namespace_of_work_is_that_of_its_binding() -> None:
    work = {"metadata": {"namespace": "karmada-es-m1", "annotations": {well_known.RB_NAMESPACE: "demo"}}}
    assert well_known.profile_namespace(work) == "demo"
    assert well_known.profile_namespace({"metadata": {"namespace": "demo"}}) == "demo"


def test_labels_and_annotations_with_none_are_removed() -> None:
    raw = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    changed = well_known.with_metadata(raw, labels={"a": None, "c": "3"}, annotations={})
    assert changed == {"metadata": {"labels": {"b": "2", "c": "3"}}}
    assert raw == {"metadata": {"labels": {"a": "1", "b": "2"}}}
