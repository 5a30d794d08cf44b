"""Defaulting and validation of Clusters."""

from typing import Any

import pytest

from api.admission.admission_helpers import errors_of, with_defaults
from trimtab.api.value import Raw

CLUSTERS = "clusters.cluster.karmada.io"


def cluster(**spec: Any) -> Raw:
    return {"metadata": {"name": "m1"}, "spec": {"syncMode": "Push", **spec}}


def test_default_resource_models_are_set_and_zone_is_moved_to_zones() -> None:
    spec = with_defaults(CLUSTERS, cluster(zone="z1"))["spec"]
    assert spec["zones"] == ["z1"]
    assert "zone" not in spec
    assert [model["grade"] for model in spec["resourceModels"]] == list(range(9))
    assert errors_of(CLUSTERS, with_defaults(CLUSTERS, cluster())) == []


def test_resource_models_are_sorted_by_grade_and_cover_the_whole_range() -> None:
    models = [
        {"grade": 2, "ranges": [{"name": "cpu", "min": "2", "max": "4"}]},
        {"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "2"}]},
    ]
    first, last = with_defaults(CLUSTERS, cluster(resourceModels=models))["spec"]["resourceModels"]
    assert (first["grade"], first["ranges"][0]["min"]) == (1, "0")
    assert (last["grade"], last["ranges"][0]["max"]) == (2, "9223372036854775807")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"syncMode": "Both"}, "spec.syncMode"),
        ({"apiEndpoint": "https://user@host"}, "spec.apiEndpoint"),
        ({"apiEndpoint": "nowhere"}, "spec.apiEndpoint"),
        ({"secretRef": {"name": "a"}}, "spec.secretRef.namespace"),
        ({"proxyURL": "ftp://x"}, "spec.proxyURL"),
        ({"region": "a b"}, "spec.region"),
        ({"zone": "a", "zones": ["b"]}, "spec.zones"),
        ({"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}, "spec.taints[0].effect"),
        ({"taints": [{"key": "a", "effect": "NoExecute"}] * 2}, "spec.taints[1]"),
    ],
)
def test_invalid_cluster_is_rejected_with_the_field(spec: Raw, field: str) -> None:
    (error,) = errors_of(CLUSTERS, cluster(**spec))
    assert error.startswith(f"{field}: ")


def test_cluster_name_has_at_most_48_characters() -> None:
    raw = cluster()
    raw["metadata"]["name"] = "x" * 49
    assert errors_of(CLUSTERS, raw)[0].endswith("must be no more than 48 characters")


def test_a_changed_spec_is_checked_and_an_unchanged_one_is_not_checked_again() -> None:
    stored = cluster(region="a b")
    assert errors_of(CLUSTERS, {**cluster(region="a b"), "status": {"kubernetesVersion": "v1.32.0"}}, stored) == []
    assert errors_of(CLUSTERS, cluster(region="b c"), stored)
