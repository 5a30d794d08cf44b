"""Failback to the preferred clusters."""

from datetime import timedelta
from typing import Any

from builders import NOON, binding, placement
from views import FakeView

from static_fleet import StaticFleet, serving_cluster
from trimtab.api.kinds.cluster import Cluster, ResourceSummary
from trimtab.api.kinds.work import Binding, GracefulEvictionTask, HeldReplicas, PreviousPlacement, TargetCluster
from trimtab.api.profile import UPSTREAM
from trimtab.controllers.contract import RequeueAfter
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.failback import failback, failback_window

MINUTE = timedelta(minutes=1)
GROUPS = [{"affinityName": "one", "clusterNames": ["m1"]}, {"affinityName": "two", "clusterNames": ["m2"]}]
PREVIOUS = PreviousPlacement(clusters=(TargetCluster(name="m1", replicas=2),), affinity_name="one", since=NOON - MINUTE)


def roomy_cluster(name: str, *taints: str, **more: Any) -> Cluster:
    """A cluster that serves Deployments and reports free capacity."""
    found = serving_cluster(name, *taints, **more)
    capacity = ResourceSummary(allocatable={"pods": "110", "cpu": "8"})
    return found.but(status=found.status.but(resource_summary=capacity))


def fallen_back(previous: PreviousPlacement | None = PREVIOUS, **fields: Any) -> Binding:
    return binding(
        clusters={"m2": 2},
        placement=placement(clusterAffinities=GROUPS, failback={"after": "5m"}),
        status_scheduler_observing_affinity_name="two",
        status_previous_placement=previous,
        **fields,
    )


def reconcile(subject: Binding, *clusters: Cluster, **options: Any) -> list[Any]:
    return list(failback(subject, FakeView(clusters, fleet=StaticFleet(list(clusters)), **options)))


def test_the_window_begins_when_the_preferred_clusters_are_available() -> None:
    after, requeue = reconcile(fallen_back(), roomy_cluster("m1"), roomy_cluster("m2"))
    assert after.status.previous_placement.healthy_since == NOON
    assert requeue == RequeueAfter(300.0)


def test_a_flap_restarts_the_window() -> None:
    waiting = fallen_back(PREVIOUS.but(healthy_since=NOON - 4 * MINUTE))
    (after,) = reconcile(waiting, roomy_cluster("m1", "broken:NoSchedule"), roomy_cluster("m2"))
    assert after.status.previous_placement.healthy_since is None
    assert reconcile(fallen_back(), roomy_cluster("m1", ready="False"), roomy_cluster("m2")) == []


def test_after_the_window_a_fresh_decision_is_requested_with_cause_failback() -> None:
    ready = fallen_back(PREVIOUS.but(healthy_since=NOON - 5 * MINUTE))
    after, _ = reconcile(ready, roomy_cluster("m1"), roomy_cluster("m2"))
    assert after.spec.reschedule_triggered_at == NOON
    assert after.metadata.annotations["trimtab.dev/reschedule-request"].startswith("Failback ")
    assert reconcile(
        fallen_back(PREVIOUS.but(healthy_since=NOON - 4 * MINUTE)), roomy_cluster("m1"), roomy_cluster("m2")
    ) == [RequeueAfter(60.0)]


def test_failback_is_not_requested_twice() -> None:
    ready = fallen_back(PREVIOUS.but(healthy_since=NOON - 5 * MINUTE), reschedule_triggered_at=NOON)
    assert reconcile(ready, roomy_cluster("m1"), roomy_cluster("m2")) == []


def test_a_returned_workload_clears_its_previous_placement() -> None:
    returned = fallen_back().but(status=fallen_back().status.but(scheduler_observing_affinity_name="one"))
    (after,) = reconcile(returned, roomy_cluster("m1"), roomy_cluster("m2"))
    assert after.status.previous_placement is None


def test_a_workload_without_a_failback_policy_does_not_return() -> None:
    without_failback = fallen_back().but(spec=fallen_back().spec.but(placement=placement(clusterAffinities=GROUPS)))
    assert reconcile(without_failback, roomy_cluster("m1"), roomy_cluster("m2")) == []
    assert reconcile(fallen_back(), roomy_cluster("m1"), roomy_cluster("m2"), profile=UPSTREAM) == []


def test_every_undone_return_doubles_the_next_window() -> None:
    def waits(undone: int) -> float:
        _, requeue = reconcile(
            fallen_back(PREVIOUS.but(reverted_failbacks=undone)), roomy_cluster("m1"), roomy_cluster("m2")
        )
        return float(requeue.seconds) / 60

    assert [waits(undone) for undone in (0, 1, 2, 3)] == [5.0, 10.0, 20.0, 40.0]
    assert waits(1000) == 24 * 60


def test_a_window_longer_than_a_day_is_not_capped() -> None:
    returned = placement(clusterAffinities=GROUPS, failback={"after": "48h"})
    assert failback_window(returned, 0) == failback_window(returned, 3) == timedelta(hours=48)


def test_closing_the_preferred_clusters_resets_the_count_of_undone_returns() -> None:
    (after,) = reconcile(
        fallen_back(PREVIOUS.but(reverted_failbacks=3)), roomy_cluster("m1", ready="False"), roomy_cluster("m2")
    )
    assert after.status.previous_placement.reverted_failbacks == 0


def test_no_return_begins_while_another_move_is_in_progress() -> None:
    window_over = PREVIOUS.but(healthy_since=NOON - 5 * MINUTE)
    held = HeldReplicas(cluster="m3", replicas=1, since=NOON, reason="Rebalance")
    task = GracefulEvictionTask(from_cluster="m3", replicas=1, reason="R", producer="x")
    for busy in (
        fallen_back(window_over, status_holds=(held,)),
        fallen_back(window_over, graceful_eviction_tasks=(task,)),
    ):
        assert reconcile(busy, roomy_cluster("m1"), roomy_cluster("m2")) == []


def moved_away(previous: PreviousPlacement | None = PREVIOUS, **fields: Any) -> Binding:
    """A workload without affinity groups that left m1 and m3 for m2."""
    return binding(
        clusters={"m2": 2}, placement=placement(failback={"after": "5m"}), status_previous_placement=previous, **fields
    )


def test_without_groups_a_workload_returns_to_all_clusters_that_it_left() -> None:
    both = PREVIOUS.but(clusters=(TargetCluster(name="m1", replicas=1), TargetCluster(name="m3", replicas=1)))
    after, requeue = reconcile(moved_away(both), *map(roomy_cluster, ("m1", "m2", "m3")))
    assert after.status.previous_placement.healthy_since == NOON
    assert requeue == RequeueAfter(300.0)
    lacking = reconcile(
        moved_away(both), roomy_cluster("m1"), roomy_cluster("m2"), roomy_cluster("m3", "broken:NoSchedule")
    )
    assert lacking == [], "one of two clusters is not the placement that it left"


def test_a_workload_that_is_where_it_was_does_not_return() -> None:
    there = PREVIOUS.but(clusters=(TargetCluster(name="m2", replicas=2),), healthy_since=NOON - 6 * MINUTE)
    effects = reconcile(moved_away(there), roomy_cluster("m1"), roomy_cluster("m2"))
    assert all(effect.spec.reschedule_triggered_at is None for effect in effects if isinstance(effect, Binding))


def test_the_first_window_is_not_longer_than_asked() -> None:
    assert failback_window(placement(failback={"after": "1m"})) == MINUTE


def test_a_return_that_found_no_room_is_not_requested_again_and_again() -> None:
    ready = fallen_back(PREVIOUS.but(healthy_since=NOON - 5 * MINUTE))
    stalled = binding_moves.with_stalled_condition(ready, "NoFeasibleCluster", "no room", NOON)
    assert reconcile(stalled, roomy_cluster("m1"), roomy_cluster("m2")) == []


def test_a_binding_that_is_deleted_or_scheduled_by_others_does_not_return() -> None:
    ready = fallen_back(PREVIOUS.but(healthy_since=NOON - 5 * MINUTE))
    clusters = roomy_cluster("m1"), roomy_cluster("m2")
    assert reconcile(ready, *clusters)
    assert reconcile(ready.but(metadata=ready.metadata.but(deletion_timestamp=NOON)), *clusters) == []
    assert reconcile(ready.but(spec=ready.spec.but(scheduler_name="mine")), *clusters) == []


def test_nothing_returns_while_no_cluster_is_feasible() -> None:
    waiting = fallen_back(PREVIOUS.but(healthy_since=NOON - 4 * MINUTE))
    closed = roomy_cluster("m1", "x:NoSchedule"), roomy_cluster("m2", "x:NoSchedule")
    (after,) = reconcile(waiting, *closed)
    assert after.status.previous_placement.healthy_since is None
