import pytest

from trimtab.api.kinds.ocm_placement import OcmPlacement, PlacementDecision
from trimtab.api.value import Meta
from trimtab.controllers.contract import Delete, RecordEvent
from trimtab.controllers.ocm.placement_decisions import (
    DecisionEvents,
    gaining_pages_first,
    is_changed,
    new_decision,
    removal_effects,
)
from trimtab.decide.ocm.groups import DecisionPage
from trimtab.decide.ocm.snapshot import StoredDecision

PLACEMENT = OcmPlacement(metadata=Meta(name="p", namespace="team", uid="u"))


def page(number: int, *clusters: str) -> DecisionPage:
    return DecisionPage(f"p-decision-{number}", "", 0, list(clusters))


def held(number: int, *clusters: str) -> StoredDecision:
    return StoredDecision(new_decision(PLACEMENT, page(number, *clusters), None), list(clusters))


def test_page_that_gains_a_cluster_is_written_before_the_page_that_loses_it() -> None:
    before = {"p-decision-1": held(1, "a", "b"), "p-decision-2": held(2, "c")}
    order = gaining_pages_first([page(1, "a"), page(2, "b", "c")], before)
    assert [one.name for one in order] == ["p-decision-2", "p-decision-1"]


def test_pages_that_exchange_clusters_are_each_written_once() -> None:
    before = {"p-decision-1": held(1, "a"), "p-decision-2": held(2, "b")}
    order = gaining_pages_first([page(1, "b"), page(2, "a")], before)
    assert sorted(one.name for one in order) == ["p-decision-1", "p-decision-2"]


def test_unwanted_decision_is_deleted_with_an_event() -> None:
    deleted, event = removal_effects(DecisionEvents(PLACEMENT), [held(1, "a"), held(2, "b")], {"p-decision-1"})
    assert isinstance(deleted, Delete)
    assert isinstance(deleted.target, PlacementDecision)
    assert deleted.target.name == "p-decision-2"
    assert isinstance(event, RecordEvent)
    assert event.reason == "DecisionDelete"


@pytest.mark.parametrize(
    ("clusters", "scores", "expected"),
    [(("a", "b"), None, False), (("b", "a"), None, True), (("a", "b"), {"a": 7}, True)],
)
def test_page_is_changed_by_its_clusters_and_by_their_scores(
    clusters: tuple[str, ...], scores: dict[str, int] | None, expected: bool
) -> None:
    assert is_changed(page(1, *clusters), held(1, "a", "b"), scores) is expected


def test_new_decision_is_owned_by_its_placement() -> None:
    decision = new_decision(PLACEMENT, page(1, "a"), {"a": 5})
    (owner,) = decision.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Placement", "p", "u", True)
    assert decision.status is not None
    assert [(one.cluster_name, one.score) for one in decision.status.decisions] == [("a", 5)]
