from plugins.clusters import binding, check_filter, cluster
from trimtab.decide.request import placement_request_of
from trimtab.plugins import load

load()


def test_only_decided_clusters_may_be_chosen() -> None:
    referring = placement_request_of(binding(), candidates=["m1"])
    assert check_filter("PlacementReference", referring, cluster("m1")) is None
    assert check_filter("PlacementReference", referring, cluster("m2")) is not None


def test_an_empty_decision_allows_no_cluster() -> None:
    assert check_filter("PlacementReference", placement_request_of(binding(), candidates=[]), cluster("m1")) is not None


def test_without_a_reference_all_clusters_are_allowed() -> None:
    assert check_filter("PlacementReference", placement_request_of(binding()), cluster("m2")) is None
