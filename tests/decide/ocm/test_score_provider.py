from datetime import timedelta

import pytest
from views import NOON

from trimtab.api.kinds.cluster import Cluster, ClusterStatus, ResourceSummary
from trimtab.api.kinds.ocm_clusters import ManagedCluster, ManagedClusterStatus
from trimtab.api.value import Meta
from trimtab.decide.ocm.score_provider import (
    ClusterScores,
    normalize_to_range,
    placement_scores,
    provider_clusters,
    run_provider,
)
from trimtab.errors import InputError


def test_a_cluster_appears_once_with_the_data_of_both_kinds() -> None:
    managed = ManagedCluster(
        metadata=Meta(name="m1", labels={"set": "x"}), status=ManagedClusterStatus(allocatable={"cpu": "1"})
    )
    summary = ResourceSummary(allocatable={"cpu": "4"}, allocated={"cpu": "500m"})
    cluster = Cluster(metadata=Meta(name="m1", labels={"env": "prod"}), status=ClusterStatus(resource_summary=summary))
    (one,) = provider_clusters([cluster], [managed])
    assert one.labels == {"set": "x", "env": "prod"}
    assert (one.allocatable["cpu"], one.allocated["cpu"]) == (4.0, 0.5)
    assert [other.name for other in provider_clusters([], [managed])] == ["m1"]


def test_numbers_are_normalized_to_scores() -> None:
    assert normalize_to_range({"a": 1.0, "b": 2.0, "c": 5.0}) == {"a": -100, "b": -50, "c": 100}
    assert normalize_to_range({"a": 1.0, "b": 5.0}, best="lowest") == {"a": 100, "b": -100}
    assert normalize_to_range({"a": 3.0}) == {"a": 100}
    assert normalize_to_range({}) == {}


def test_scores_are_published_with_their_expiry() -> None:
    (made,) = placement_scores("cost", [ClusterScores("m1", {"price": 12.4})], {}, NOON, 300)
    assert (made.namespace, made.name) == ("m1", "cost")
    assert made.status.valid_until == NOON + timedelta(minutes=5)
    assert [(s.name, s.value) for s in made.status.scores] == [("price", 12)]
    (short,) = placement_scores("cost", [ClusterScores("m1", {"price": 1}, 60)], {"m1": made}, NOON, 300)
    assert short.status.valid_until == NOON + timedelta(minutes=1)


def test_scores_out_of_range_or_of_unknown_clusters_are_rejected() -> None:
    fleet = provider_clusters([Cluster(metadata=Meta(name="m1"))], [])
    with pytest.raises(InputError, match="must be -100 to 100"):
        list(run_provider(lambda *_: [ClusterScores("m1", {"x": 101})], fleet, {}))
    with pytest.raises(InputError, match="not a cluster of this fleet"):
        list(run_provider(lambda *_: [ClusterScores("m9", {"x": 1})], fleet, {}))


def test_a_summary_without_allocated_resources_means_no_usage() -> None:
    summary = ResourceSummary(allocatable={"cpu": "4"})
    (idle,) = provider_clusters([Cluster(metadata=Meta(name="m1"), status=ClusterStatus(resource_summary=summary))], [])
    assert idle.allocated == {"cpu": 0.0}
    assert provider_clusters([Cluster(metadata=Meta(name="m1"))], [])[0].allocated == {}


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (("m1", {"x": "high"}, 60), "is 'high'"),
        (("m1", {"x": True}, 60), "is True"),
        (("m1", {"x": float("nan")}, 60), "is nan"),
        (("m1", 7), "not \\(cluster, scores, seconds\\)"),
        ("m1", "not \\(cluster, scores, seconds\\)"),
        (("m1", {"x": 1}, -5), "valid for -5 seconds"),
    ],
)
def test_a_malformed_provider_result_is_rejected_with_a_message(answer: object, complaint: str) -> None:
    fleet = provider_clusters([Cluster(metadata=Meta(name="m1"))], [])
    with pytest.raises(InputError, match=complaint):
        list(run_provider(lambda *_: [answer], fleet, {}))


def test_an_exception_inside_a_provider_is_reported_in_one_line() -> None:
    def provide(*_: object) -> list[ClusterScores]:
        raise RuntimeError("no network")

    with pytest.raises(InputError, match="the provider failed: RuntimeError: no network"):
        list(run_provider(provide, [], {}))
