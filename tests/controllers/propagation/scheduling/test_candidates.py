"""The clusters that an OCM Placement offers to a binding."""

from builders import binding, placement
from views import FakeView

from trimtab.api.kinds.ocm_placement import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from trimtab.api.value import Meta
from trimtab.controllers.propagation.scheduling.candidates import current_candidates, placement_candidates
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL


def page(placement_name: str, *clusters: str, namespace: str = "demo", number: int = 1) -> PlacementDecision:
    labels = {PLACEMENT_LABEL: placement_name}
    decisions = tuple(ClusterDecision(cluster_name=name, reason="") for name in clusters)
    return PlacementDecision(
        metadata=Meta(name=f"{placement_name}-{number}", namespace=namespace, labels=labels),
        status=PlacementDecisionStatus(decisions=decisions),
    )


REFERRING = binding(placement=placement(placementRef={"name": "gold"}))


def test_a_placement_that_refers_to_none_has_no_candidates() -> None:
    assert placement_candidates(binding(), FakeView([page("gold", "m1")])) is None


def test_candidates_are_on_all_pages_of_the_placement_and_of_no_other() -> None:
    view = FakeView([page("gold", "m2", "m1"), page("gold", "m3", number=2), page("other", "m4")])
    assert placement_candidates(REFERRING, view) == ["m2", "m1", "m3"]
    assert current_candidates(REFERRING, view) == ("m1", "m2", "m3")


def test_a_placement_of_the_same_name_in_another_namespace_offers_nothing() -> None:
    view = FakeView([page("gold", "m1", namespace="elsewhere")])
    assert placement_candidates(REFERRING, view) == []
    named = binding(placement=placement(placementRef={"name": "gold", "namespace": "elsewhere"}))
    assert placement_candidates(named, view) == ["m1"]


def test_a_placement_without_a_decision_offers_no_cluster() -> None:
    assert placement_candidates(REFERRING, FakeView()) == []
