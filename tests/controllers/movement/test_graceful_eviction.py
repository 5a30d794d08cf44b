"""When graceful eviction deletes the old copy."""

from datetime import timedelta
from typing import Any

import msgspec
from builders import NOON, binding, cluster, frozen, placement, status_item
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.work import Binding, GracefulEvictionTask, TargetCluster, Work
from trimtab.api.profile import UPSTREAM
from trimtab.api.value import Condition, Meta
from trimtab.controllers.contract import RecordEvent
from trimtab.controllers.movement import purge_guard
from trimtab.controllers.movement.graceful_eviction import (
    bindings_leaving_cluster,
    concerns_evictions,
    evicted_binding_of_work,
    graceful_eviction,
)
from trimtab.controllers.well_known import APPLIED_PLACEMENT, RB_NAME, RB_NAMESPACE, TAINT_MANAGER

AFTER = NOON + timedelta(seconds=602)


def leaving(*items: Any, **fields: Any) -> Binding:
    task = GracefulEvictionTask(
        from_cluster="m1", replicas=2, purge_mode="Gracefully", producer="x", reason="R", creation_timestamp=NOON
    ).but(**fields)
    divided = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
    return binding(
        clusters={"m2": 2},
        graceful_eviction_tasks=(task,),
        placement=placement(replicaScheduling=divided),
        status_aggregated_status=items,
    )


def tasks_after(subject: Binding, *clusters: Any, **options: Any) -> int:
    effects = list(graceful_eviction(subject, FakeView(clusters, **options)))
    changed = [effect for effect in effects if isinstance(effect, Binding)]
    return len((changed[-1] if changed else subject).spec.graceful_eviction_tasks)


def test_the_old_copy_is_deleted_when_the_new_one_is_healthy() -> None:
    assert tasks_after(leaving(status_item("m1"), status_item("m2"))) == 0
    assert tasks_after(leaving(status_item("m1"), status_item("m2", "Unhealthy"))) == 1


def test_after_the_deadline_the_last_healthy_copy_stays() -> None:
    assert tasks_after(leaving(status_item("m1"), status_item("m2", "Unhealthy")), now=AFTER) == 1
    assert tasks_after(leaving(status_item("m1"), status_item("m2", "Unhealthy")), now=AFTER, profile=UPSTREAM) == 0


def test_after_the_deadline_an_unhealthy_copy_is_deleted_if_it_was_replaced() -> None:
    assert tasks_after(leaving(status_item("m1", "Unhealthy"), status_item("m2", "Unhealthy")), now=AFTER) == 0
    assert tasks_after(leaving(status_item("m1", "Unhealthy")), now=AFTER) == 1


def test_grace_period_is_over_when_its_last_second_has_passed() -> None:
    """The task may have been created at the end of the second that its time names."""
    unhealthy = leaving(status_item("m1", "Unhealthy"), status_item("m2", "Unhealthy"), grace_period_seconds=5)
    assert tasks_after(unhealthy, now=NOON + timedelta(seconds=5.9)) == 1
    assert tasks_after(unhealthy, now=NOON + timedelta(seconds=6.1)) == 0


def test_a_suppressed_deletion_waits_for_the_user() -> None:
    assert tasks_after(leaving(status_item("m1"), status_item("m2"), suppress_deletion=True), now=AFTER) == 1
    assert tasks_after(leaving(status_item("m1"), suppress_deletion=False)) == 0


def test_a_recovered_cluster_gets_its_share_back_from_clusters_that_are_not_ready() -> None:
    subject = leaving(
        status_item("m1"), status_item("m2", "Unhealthy", status={"readyReplicas": 0}), producer=TAINT_MANAGER
    )
    (after, event) = graceful_eviction(subject, FakeView([cluster("m1"), cluster("m2")]))
    assert {t.name: t.replicas for t in after.spec.clusters} == {"m1": 2}
    assert after.spec.graceful_eviction_tasks == ()
    assert isinstance(event, RecordEvent)
    assert event.reason == "EvictionCancelled"


def test_an_eviction_is_not_cancelled_while_its_cause_lasts() -> None:
    subject = leaving(status_item("m1"), status_item("m2", "Unhealthy"), producer=TAINT_MANAGER)
    assert tasks_after(subject, cluster("m1", "x:NoExecute"), cluster("m2")) == 1
    assert tasks_after(subject, cluster("m1", ready="False"), cluster("m2")) == 1
    assert tasks_after(subject, cluster("m1"), cluster("m2"), profile=UPSTREAM) == 1


def test_a_recovered_cluster_gets_nothing_back_once_it_is_replaced() -> None:
    """The old copy is deleted instead: the replacement is ready, and would have to be moved back."""
    subject = leaving(status_item("m1"), status_item("m2"), producer=TAINT_MANAGER)
    effects = list(graceful_eviction(subject, FakeView([cluster("m1"), cluster("m2")])))
    assert "EvictionCancelled" not in [effect.reason for effect in effects if isinstance(effect, RecordEvent)]


def test_a_recovered_cluster_gets_nothing_back_after_an_immediate_purge() -> None:
    """Its copy is deleted already."""
    subject = leaving(
        status_item("m2", "Unhealthy"), producer=TAINT_MANAGER, purge_mode="Directly", suppress_deletion=True
    )
    assert tasks_after(subject, cluster("m1"), cluster("m2")) == 1


def test_only_bindings_with_eviction_tasks_are_reconciled() -> None:
    assert concerns_evictions(None, leaving())
    assert not concerns_evictions(leaving(), binding())
    assert not list(graceful_eviction(binding(), FakeView()))


def test_the_old_copy_stays_until_the_placement_was_decided_for_the_current_generation() -> None:
    subject = leaving(status_item("m1"), status_item("m2"))
    edited = subject.but(metadata=subject.metadata.but(generation=subject.metadata.generation + 1))
    assert tasks_after(edited) == 1
    decided = edited.but(status=edited.status.but(scheduler_observed_generation=edited.metadata.generation))
    assert tasks_after(decided) == 0


def test_every_new_copy_must_be_healthy_before_the_old_one_is_deleted() -> None:
    subject = leaving(status_item("m1"), status_item("m2"), status_item("m3", "Unhealthy"))
    wider = subject.but(spec=subject.spec.but(clusters=binding(clusters={"m2": 1, "m3": 1}).spec.clusters))
    assert tasks_after(wider) == 1


def test_a_workload_that_is_placed_nowhere_keeps_its_old_copy() -> None:
    subject = leaving(status_item("m1"))
    nowhere = subject.but(spec=subject.spec.but(clusters=()))
    assert tasks_after(nowhere) == 1
    assert tasks_after(nowhere, profile=UPSTREAM) == 0


def test_after_the_deadline_a_healthy_copy_is_deleted_if_another_is_healthy() -> None:
    unhealthy = status_item("m3", "Unhealthy")
    subject = leaving(status_item("m1"), status_item("m2"), unhealthy)
    two = subject.but(spec=subject.spec.but(clusters=(*subject.spec.clusters, TargetCluster(name="m3", replicas=1))))
    assert tasks_after(two, now=AFTER) == 0


def test_a_binding_that_is_being_deleted_is_left_alone() -> None:
    subject = leaving(status_item("m2"))
    gone = subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON))
    assert list(graceful_eviction(gone, FakeView(now=AFTER))) == []


def test_a_cluster_that_changes_wakes_only_bindings_that_leave_it() -> None:
    old, new = cluster("m1", "a:NoExecute"), cluster("m1")
    subject, other = leaving(), binding("other", clusters={"m1": 1})
    view = FakeView([subject, other])
    assert list(bindings_leaving_cluster(old, new, view)) == [key_of(subject)]
    assert list(bindings_leaving_cluster(new, new, view)) == []
    assert list(bindings_leaving_cluster(None, new, view)) == []


def test_old_copy_stays_while_moves_are_frozen_unless_a_person_releases_it() -> None:
    healthy = (status_item("m1"), status_item("m2"))
    assert tasks_after(leaving(*healthy), frozen(), now=AFTER) == 1
    assert tasks_after(leaving(*healthy, suppress_deletion=False), frozen()) == 0
    recovered = leaving(status_item("m1"), status_item("m2", "Unhealthy"), producer=TAINT_MANAGER)
    assert tasks_after(recovered, cluster("m1"), cluster("m2"), frozen()) == 1


def test_a_workload_that_failed_in_a_ready_cluster_does_not_stay_there() -> None:
    subject = leaving(status_item("m1"), status_item("m2", "Unhealthy"), producer="application-failover")
    assert tasks_after(subject, cluster("m1"), cluster("m2")) == 1


def test_a_cluster_that_leaves_the_fleet_does_not_keep_what_was_evicted_from_it() -> None:
    subject = leaving(status_item("m1"), status_item("m2", "Unhealthy"), producer=TAINT_MANAGER)
    going = cluster("m1")
    going = going.but(metadata=going.metadata.but(deletion_timestamp=NOON))
    assert tasks_after(subject, going, cluster("m2")) == 1


def test_an_eviction_is_not_cancelled_while_the_taint_is_not_tolerated() -> None:
    def cancelled(*taints: str, **options: Any) -> bool:
        subject = leaving(status_item("m1"), status_item("m2", "Unhealthy"), producer=TAINT_MANAGER)
        effects = graceful_eviction(subject, FakeView([cluster("m1", *taints), cluster("m2")], **options))
        return any(isinstance(effect, RecordEvent) and effect.reason == "EvictionCancelled" for effect in effects)

    assert cancelled()
    assert cancelled("x:NoSchedule")
    assert not cancelled("x:NoExecute")


def test_a_tolerated_taint_cancels_an_eviction_until_its_seconds_are_over() -> None:
    rule = placement(clusterTolerations=[{"key": "x", "operator": "Exists", "tolerationSeconds": 100}])
    subject = leaving(status_item("m1"), status_item("m2", "Unhealthy"), producer=TAINT_MANAGER)
    annotations = subject.metadata.annotations | {APPLIED_PLACEMENT: msgspec.json.encode(rule).decode()}
    subject = subject.but(metadata=subject.metadata.but(annotations=annotations))
    for seconds, tasks in ((39, 0), (40, 1)):  # tainted a minute ago
        now = NOON + timedelta(seconds=seconds)
        assert tasks_after(subject, cluster("m1", "x:NoExecute"), cluster("m2"), now=now) == tasks


def test_an_eviction_from_a_cluster_that_is_gone_is_not_cancelled() -> None:
    subject = leaving(status_item("m1"), status_item("m2", "Unhealthy"), producer=TAINT_MANAGER)
    assert tasks_after(subject, cluster("m2")) == 1


def test_only_a_recovery_or_other_taints_concern_the_evictions_from_a_cluster() -> None:
    subject = leaving()
    view = FakeView([subject])
    ready, dark, tainted = cluster("m1"), cluster("m1", ready="False"), cluster("m1", "x:NoExecute")
    for old, new, concerned in (
        (dark, ready, True),
        (tainted, ready, True),
        (ready, ready, False),
        (None, ready, False),
        (ready, None, False),
    ):
        assert list(bindings_leaving_cluster(old, new, view)) == ([key_of(subject)] if concerned else [])


def test_a_deleted_work_wakes_its_binding_only_while_evictions_are_in_progress_or_not_confirmed() -> None:
    copy = Work(
        metadata=Meta(
            name="web", namespace="karmada-es-m1", annotations={RB_NAMESPACE: "demo", RB_NAME: "web-deployment"}
        )
    )
    idle = binding(clusters={"m1": 2})
    unconfirmed = Condition(type=purge_guard.UNCONFIRMED, status="True")
    waiting = idle.but(status=idle.status.but(conditions=(unconfirmed,)))
    for subject, concerned in ((idle, False), (leaving(), True), (waiting, True)):
        view = FakeView([subject])
        assert list(evicted_binding_of_work(copy, None, view)) == ([key_of(subject)] if concerned else [])
        assert list(evicted_binding_of_work(None, copy, view)) == []
    assert list(evicted_binding_of_work(copy, None, FakeView())) == []


def test_a_binding_without_evictions_is_left_alone() -> None:
    idle = binding(clusters={"m1": 2})
    assert list(graceful_eviction(idle, FakeView([cluster("m1")]))) == []
    assert not concerns_evictions(None, idle)
    unconfirmed = Condition(type=purge_guard.UNCONFIRMED, status="True")
    assert concerns_evictions(None, idle.but(status=idle.status.but(conditions=(unconfirmed,))))
