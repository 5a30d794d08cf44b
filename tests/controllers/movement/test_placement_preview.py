"""Previews of placements before an eviction."""

from typing import Any

from builders import binding, placement
from views import FakeView

from static_fleet import StaticFleet, serving_cluster
from trimtab.api.kinds.work import Binding
from trimtab.controllers.movement.placement_preview import PlacementPreview, preview_placement, transfer_out_of


def preview(subject: Binding, *clusters: Any) -> PlacementPreview:
    return preview_placement(subject, FakeView(clusters, fleet=StaticFleet(list(clusters))))


def test_a_preview_names_the_clusters_that_the_scheduler_would_select() -> None:
    found = preview(
        binding(placement=placement(), replicas=2), serving_cluster("m1", "x:NoSchedule"), serving_cluster("m2")
    )
    assert (found.clusters, found.failure) == ({"m2": 2}, "")


def test_a_preview_without_a_feasible_cluster_has_the_message_of_the_failure() -> None:
    found = preview(binding(placement=placement(), replicas=2), serving_cluster("m1", "x:NoSchedule"))
    assert found.clusters == {}
    assert found.failure


def test_a_binding_without_a_placement_has_no_preview() -> None:
    found = preview(binding(placement=None), serving_cluster("m1"))
    assert (found.clusters, found.failure) == ({}, "it has no placement of its own")


def test_a_transfer_names_the_targets_of_one_cluster() -> None:
    subject = binding(clusters={"m1": 2, "m2": 1})
    transfer = transfer_out_of(subject, "m1", PlacementPreview({"m2": 2, "m3": 1}))
    assert (transfer.source, transfer.replicas, dict(transfer.to)) == ("m1", 2, {"m2": 1, "m3": 1})
    nowhere = transfer_out_of(subject, "m1", PlacementPreview({}))
    assert (nowhere.source, nowhere.replicas, nowhere.to) == ("m1", 2, ())
