"""Older versions of a kind are the same object in other words."""

import pytest

from trimtab.api import kinds as declarations
from trimtab.api.kind import find_kind, kinds
from trimtab.api.value import Raw
from trimtab.registry import discover

discover(declarations)
PLACEMENTS = kinds["placements.cluster.open-cluster-management.io"]
BINDINGS = kinds["resourcebindings.work.karmada.io"]


def placement(*configurations: Raw) -> Raw:
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1alpha1",
        "kind": "Placement",
        "spec": {"prioritizerPolicy": {"configurations": list(configurations)}},
    }


def converted(configuration: Raw) -> Raw:
    new = PLACEMENTS.convert(placement(configuration), "v1beta1")
    assert new["apiVersion"] == "cluster.open-cluster-management.io/v1beta1"
    (result,) = new["spec"]["prioritizerPolicy"]["configurations"]
    return result


@pytest.mark.parametrize(
    ("configuration", "coordinate"),
    [
        ({"name": "Balance"}, {"type": "BuiltIn", "builtIn": "Balance"}),
        ({"scoreCoordinate": {"type": "BuildIn", "buildIn": "Steady"}}, {"type": "BuiltIn", "builtIn": "Steady"}),
        (
            {"scoreCoordinate": {"buildIn": "Steady", "builtIn": "Balance"}},
            {"type": "BuiltIn", "builtIn": "Balance"},
        ),
        ({"name": "Balance", "scoreCoordinate": {"builtIn": "Steady"}}, {"type": "BuiltIn", "builtIn": "Steady"}),
        (
            {"name": "Balance", "scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "r", "scoreName": "s"}}},
            {"type": "AddOn", "addOn": {"resourceName": "r", "scoreName": "s"}},
        ),
    ],
)
def test_every_spelling_of_a_score_means_the_same(configuration: Raw, coordinate: Raw) -> None:
    assert converted({**configuration, "weight": 2}) == {"scoreCoordinate": coordinate, "weight": 2}


def test_an_old_reader_of_a_placement_finds_the_name_of_a_score() -> None:
    new = PLACEMENTS.convert(placement({"name": "Steady"}), "v1beta1")
    old = PLACEMENTS.convert(new, "v1alpha1")
    assert old["spec"]["prioritizerPolicy"]["configurations"] == [
        {"name": "Steady", "scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}}
    ]


def test_an_old_binding_keeps_its_replicas_and_what_they_need() -> None:
    old = {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "ResourceBinding",
        "spec": {
            "resource": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": "web",
                "replicas": 3,
                "resourcePerReplicas": {"cpu": "1"},
            },
            "clusters": [{"name": "m1", "replicas": 3}],
        },
    }
    new = BINDINGS.convert(old, "v1alpha2")
    assert new["spec"]["replicas"] == 3
    assert new["spec"]["replicaRequirements"] == {"resourceRequest": {"cpu": "1"}}
    assert BINDINGS.convert(new, "v1alpha1") == old


def test_the_stored_version_is_handed_back_as_it_is() -> None:
    raw = {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding"}
    assert BINDINGS.convert(raw, "v1alpha2") is raw


def test_both_versions_lead_to_the_same_kind() -> None:
    assert find_kind("work.karmada.io/v1alpha1", "ResourceBinding") is BINDINGS
