"""Placement, PlacementDecision and AddOnPlacementScore."""

import pytest

from trimtab.api.kind import kind_of
from trimtab.api.kinds.ocm_placement import AddOnPlacementScore, OcmPlacement
from trimtab.api.value import Raw

PLACEMENTS = kind_of(OcmPlacement)


def placement(*configurations: Raw) -> Raw:
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1alpha1",
        "kind": "Placement",
        "spec": {"prioritizerPolicy": {"configurations": list(configurations)}},
    }


def converted_configuration(configuration: Raw) -> Raw:
    new = PLACEMENTS.convert(placement(configuration), "v1beta1")
    assert new["apiVersion"] == "cluster.open-cluster-management.io/v1beta1"
    (configuration,) = new["spec"]["prioritizerPolicy"]["configurations"]
    return configuration


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
def test_v1alpha1_spellings_of_a_score_convert_to_the_stored_form(configuration: Raw, coordinate: Raw) -> None:
    assert converted_configuration({**configuration, "weight": 2}) == {"scoreCoordinate": coordinate, "weight": 2}


def test_conversion_to_v1alpha1_adds_the_score_name() -> None:
    new = PLACEMENTS.convert(placement({"name": "Steady"}), "v1beta1")
    old = PLACEMENTS.convert(new, "v1alpha1")
    assert old["spec"]["prioritizerPolicy"]["configurations"] == [
        {"name": "Steady", "scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}}
    ]


def test_older_score_spellings_are_normalized_on_decoding() -> None:
    decoded = PLACEMENTS.decode(placement({"name": "Balance"}))
    assert isinstance(decoded, OcmPlacement)
    (configuration,) = decoded.spec.prioritizer_policy.configurations
    assert configuration.score_coordinate is not None
    assert configuration.score_coordinate.built_in == "Balance"


def test_placement_decodes_with_defaults() -> None:
    decoded = PLACEMENTS.decode({"metadata": {"name": "p"}, "spec": {}})
    assert isinstance(decoded, OcmPlacement)
    assert (decoded.spec.number_of_clusters, decoded.spec.sort_by) == (None, "ClusterName")
    assert decoded.spec.decision_strategy.group_strategy.clusters_per_decision_group == "100%"


def test_scores_without_an_expiry_do_not_encode_valid_until() -> None:
    raw = {"metadata": {"name": "s", "namespace": "m1"}, "status": {"scores": [{"name": "cpu", "value": 0}]}}
    encoded = kind_of(AddOnPlacementScore).encode(kind_of(AddOnPlacementScore).decode(raw))
    assert encoded["status"] == {"scores": [{"name": "cpu", "value": 0}]}
