"""Decisions for propagation policies: groups, profiles, batches."""

from typing import Any

import pytest

from plugins.clusters import GROUPS, PREFERENCE, fleet, fleet_with_pods, fleet_with_scores, member, placement_request
from trimtab.api.profile import TRIMTAB, UPSTREAM
from trimtab.decide.karmada import decide, decide_all, reserve_decision, reserve_moves
from trimtab.plugins import load

load()
DUPLICATED = {"replicaSchedulingType": "Duplicated"}
AGGREGATED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
DYNAMIC = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}
BY_SCORE = {**DYNAMIC, "weightPreference": {"dynamicWeight": "Score"}}
CPU = {"resourceRequest": {"cpu": "1"}}


def test_the_first_group_that_fits_is_selected() -> None:
    decision = decide(placement_request(placement={"clusterAffinities": GROUPS}), fleet_with_pods(5, 5))
    assert (decision.affinity_name, decision.clusters) == ("own", [("m1", 0)])


def test_the_next_group_is_tried_when_the_first_does_not_fit() -> None:
    decision = decide(placement_request(placement={"clusterAffinities": GROUPS}), fleet(member("m2")))
    assert [(tried.affinity_name, tried.failure is None) for tried in decision.tried_groups] == [
        ("own", False),
        ("cloud", True),
    ]
    assert decision.affinity_name == "cloud"


@pytest.mark.parametrize(("profile", "expected"), [(UPSTREAM, []), (TRIMTAB, [("m1", 0)])])
def test_earlier_groups_are_tried_again_only_by_trimtab(profile: Any, expected: list[tuple[str, int]]) -> None:
    observed = placement_request(
        placement={"clusterAffinities": GROUPS}, status={"schedulerObservingAffinityName": "cloud"}
    )
    assert decide(observed, fleet(member("m1")), profile).clusters == expected


@pytest.mark.parametrize(("profile", "group"), [(UPSTREAM, "own"), (TRIMTAB, "cloud")])
def test_a_group_without_capacity_is_accepted_only_upstream(profile: Any, group: str) -> None:
    duplicated = placement_request(placement={"clusterAffinities": GROUPS, "replicaScheduling": DUPLICATED}, replicas=4)
    assert decide(duplicated, fleet_with_pods(3, 5), profile).affinity_name == group


def test_the_placement_is_kept_when_nothing_fits_except_upstream() -> None:
    lost = placement_request(placement={"clusterAffinity": {"clusterNames": ["gone"]}}, clusters=[{"name": "m1"}])
    ours, theirs = decide(lost, fleet_with_pods(5), TRIMTAB), decide(lost, fleet_with_pods(5), UPSTREAM)
    assert (ours.should_clear, ours.should_retry) == (False, True)
    assert (theirs.should_clear, theirs.should_retry) == (True, False)
    assert ours.condition[:2] == theirs.condition[:2] == ("False", "NoClusterFit")


def test_a_fresh_decision_of_trimtab_filters_clusters_in_use_too() -> None:
    tainted = member("m1", taints=[{"key": "k", "effect": "NoSchedule"}])
    request = placement_request(
        clusters=[{"name": "m1"}],
        rescheduleTriggeredAt="2030-01-01T00:00:01Z",
        status={"lastScheduledTime": "2030-01-01T00:00:00Z"},
    )
    assert decide(request, fleet(tainted), UPSTREAM).ok
    assert not decide(request, fleet(tainted), TRIMTAB).ok


STATIC = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}
CORDONED = [{"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("scheduling", "upstream"),
    [
        (STATIC, [("m1", 3), ("m2", 3)]),
        (DYNAMIC, [("m1", 4), ("m2", 2)]),
        (AGGREGATED, [("m1", 4), ("m2", 2)]),
        (BY_SCORE, [("m1", 3), ("m2", 3)]),
    ],
)
def test_a_cluster_in_use_with_a_taint_keeps_its_replicas_and_gets_no_more(scheduling: Any, upstream: Any) -> None:
    """A failover of another cluster must not fill one that is being drained."""
    clusters = fleet(member("m1", 90, taints=CORDONED), member("m2", 10))
    request = placement_request(
        placement={"replicaScheduling": scheduling},
        replicas=6,
        clusters=[{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}],
        replicaRequirements=CPU,
    )
    assert decide(request, clusters, TRIMTAB).clusters == [("m1", 2), ("m2", 4)]
    assert decide(request, clusters, UPSTREAM).clusters == upstream


@pytest.mark.parametrize("scheduling", [STATIC, DYNAMIC, AGGREGATED, BY_SCORE])
def test_a_scale_up_waits_when_only_clusters_with_a_taint_are_left(scheduling: Any) -> None:
    request = placement_request(
        placement={"replicaScheduling": scheduling},
        replicas=6,
        clusters=[{"name": "m1", "replicas": 2}],
        replicaRequirements=CPU,
    )
    decision = decide(request, fleet(member("m1", 90, taints=CORDONED)), TRIMTAB)
    assert decision.condition[:2] == ("False", "Unschedulable")
    assert decision.should_retry


def test_a_tolerated_taint_limits_nothing() -> None:
    request = placement_request(
        placement={"replicaScheduling": STATIC, "clusterTolerations": [{"operator": "Exists"}]},
        replicas=6,
        clusters=[{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}],
    )
    clusters = fleet(member("m1", 90, taints=CORDONED), member("m2", 10))
    assert decide(request, clusters, TRIMTAB).clusters == [("m1", 3), ("m2", 3)]


def test_a_duplicated_workload_is_scaled_in_a_cluster_with_a_taint_too() -> None:
    request = placement_request(
        placement={"replicaScheduling": DUPLICATED}, replicas=3, clusters=[{"name": "m1", "replicas": 2}]
    )
    assert decide(request, fleet(member("m1", 90, taints=CORDONED)), TRIMTAB).clusters == [("m1", 3)]


def test_capacity_reserved_in_a_batch_is_not_assigned_again() -> None:
    asks = [
        placement_request(placement={"replicaScheduling": AGGREGATED}, replicas=6, replicaRequirements=CPU)
        for _ in range(3)
    ]
    ours, _ = decide_all(asks, fleet_with_pods(10, 9), TRIMTAB)
    theirs, _ = decide_all(asks, fleet_with_pods(10, 9), UPSTREAM)
    assert [decision.clusters for decision in ours] == [[("m1", 6)], [("m2", 6)], [("m1", 3), ("m2", 3)]]
    assert [decision.clusters for decision in theirs] == [[("m1", 6)]] * 3


def test_higher_priority_is_decided_first() -> None:
    def asked(priority: int) -> Any:
        return placement_request(
            placement={"replicaScheduling": AGGREGATED}, replicas=6, schedulePriority={"priority": priority}
        )

    low, high = decide_all([asked(0), asked(9)], fleet_with_pods(6), TRIMTAB)[0]
    assert (low.ok, high.ok) == (False, True)


def test_moves_in_flight_reserve_their_capacity() -> None:
    request = placement_request(placement={"replicaScheduling": DYNAMIC}, replicas=4, replicaRequirements=CPU)
    assert decide(request, fleet_with_pods(6)).ok
    assert not decide(request, reserve_moves([(request, [("m1", 3)])], fleet_with_pods(6))).ok


def test_a_decision_reserves_only_additional_replicas() -> None:
    request = placement_request(
        placement={"replicaScheduling": DYNAMIC}, replicas=4, clusters=[{"name": "m1", "replicas": 3}]
    )
    decision = decide(request, fleet_with_pods(6))
    assert reserve_decision(decision, decision.fleet).reserved["pods"].tolist() == [1]


def test_prioritizers_rank_clusters_before_anything_else() -> None:
    spread = [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]
    placement = {"prioritizerPolicy": PREFERENCE, "spreadConstraints": spread}
    in_use = placement_request(placement=placement, clusters=[{"name": "m1"}])
    assert decide(in_use, fleet_with_scores(10, 20)).clusters == [("m2", 0)]


def test_replicas_are_divided_by_score_and_the_worst_gets_none() -> None:
    placement = {"prioritizerPolicy": PREFERENCE, "replicaScheduling": BY_SCORE}
    decision = decide(placement_request(placement=placement, replicas=15), fleet_with_scores(100, None, -100))
    assert decision.clusters == [("m1", 10), ("m2", 5)]


def test_what_does_not_fit_by_score_goes_to_the_others() -> None:
    placement = {"prioritizerPolicy": PREFERENCE, "replicaScheduling": BY_SCORE}
    decision = decide(placement_request(placement=placement, replicas=15), fleet_with_scores(100, None, -100, pods=8))
    assert decision.clusters == [("m1", 8), ("m2", 7)]


def test_too_little_capacity_by_score_is_reported() -> None:
    placement = {"prioritizerPolicy": PREFERENCE, "replicaScheduling": BY_SCORE}
    decision = decide(placement_request(placement=placement, replicas=17), fleet_with_scores(100, None, -100, pods=8))
    assert decision.condition[1] == "Unschedulable"
    assert "Clusters available replicas 16 are not enough" in decision.condition[2]
