from plugins.clusters import binding, cluster, verdict
from trimtab.decide.request import ask_of
from trimtab.plugins import load

load()


def test_only_decided_clusters_may_be_chosen() -> None:
    referring = ask_of(binding(), candidates=["m1"])
    assert verdict("PlacementReference", referring, cluster("m1")) is None
    assert verdict("PlacementReference", referring, cluster("m2")) is not None


def test_an_empty_decision_allows_no_cluster() -> None:
    assert verdict("PlacementReference", ask_of(binding(), candidates=[]), cluster("m1")) is not None


def test_without_a_reference_all_clusters_are_allowed() -> None:
    assert verdict("PlacementReference", ask_of(binding()), cluster("m2")) is None
