from trimtab.api.kinds.ocm_placement import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from trimtab.api.value import Meta
from trimtab.clock import EPOCH
from trimtab.decide.ocm.snapshot import PLACEMENT_LABEL, PlacementSnapshotCache


def decision(*clusters: str) -> PlacementDecision:
    return PlacementDecision(
        metadata=Meta(name="p-decision-1", namespace="team", labels={PLACEMENT_LABEL: "p"}),
        status=PlacementDecisionStatus(decisions=tuple(ClusterDecision(cluster_name=name) for name in clusters)),
    )


def test_the_clusters_in_use_follow_the_stored_decisions() -> None:
    snapshots = PlacementSnapshotCache([decision("a", "b", "b")])
    held = snapshots.snapshot(EPOCH).decisions_of("team", "p")
    assert (held.listed_clusters, held.distinct_clusters) == (("a", "b", "b"), ("a", "b"))
    snapshots.update(decision("a", "b", "b"), decision("c"))
    held = snapshots.snapshot(EPOCH).decisions_of("team", "p")
    assert (held.listed_clusters, held.distinct_clusters) == (("c",), ("c",))
    assert snapshots.snapshot(EPOCH).decision_counts.outside_fleet == {"c": 1}
