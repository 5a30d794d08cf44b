"""Replicas that are held until their replacement is ready."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from builders import NOON, binding, cluster, status_item
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import Move, MovedObject, MoveSpec
from trimtab.api.kinds.policy import Placement, ReplicaSchedulingStrategy
from trimtab.api.kinds.work import (
    AggregatedStatusItem,
    Binding,
    GracefulEvictionTask,
    HeldReplicas,
    ManifestStatus,
    PreviousPlacement,
    StateBeforeMove,
    TargetCluster,
    Work,
    WorkStatus,
)
from trimtab.api.value import Condition, Meta
from trimtab.controllers import well_known
from trimtab.controllers.contract import RequeueAfter
from trimtab.controllers.movement.replacement_hold import bindings_with_holds, replacement_hold

LATER = NOON + timedelta(seconds=600)


def shares(**replicas: int) -> tuple[TargetCluster, ...]:
    return tuple(TargetCluster(name=name, replicas=n) for name, n in replicas.items())


def moving(ready: dict[str, int], **fields: Any) -> Binding:
    """Four replicas leave m1 for m2."""
    return binding(
        clusters={"m2": 4},
        status_holds=(HeldReplicas(cluster="m1", replicas=4, since=NOON, until=LATER, reason="Rebalance"),),
        status_replacement=StateBeforeMove(before=shares(m1=4), ready=shares(m1=4)),
        status_aggregated_status=tuple(status_item(name, status={"readyReplicas": n}) for name, n in ready.items()),
        **fields,
    )


def unfinished_move() -> Move:
    about = MovedObject(api_version="apps/v1", kind="Deployment", namespace="demo", name="web")
    return Move(
        metadata=Meta(name="e", namespace="demo", resource_version="1"),
        spec=MoveSpec(object=about, cause="Rebalance", from_="m1", replicas=4),
    )


def work(item: AggregatedStatusItem) -> Work:
    """A Work that reports what the binding shows of its cluster."""
    applied = Condition(type="Applied", status="True" if item.applied else "False")
    return Work(
        metadata=Meta(
            name="web",
            namespace=f"karmada-es-{item.cluster_name}",
            labels={well_known.RB_ID: "id-rb-web"},
        ),
        status=WorkStatus(
            conditions=(applied,), manifest_statuses=(ManifestStatus(status=item.status, health=item.health),)
        ),
    )


def reconcile(subject: Binding, *, works: list[Work] | None = None, **options: Any) -> list[Any]:
    clusters = [cluster("m1"), cluster("m2"), cluster("m3")]
    works = list(map(work, subject.status.aggregated_status)) if works is None else works
    return list(replacement_hold(subject, FakeView([*clusters, *works, unfinished_move()], **{"now": NOON, **options})))


def test_old_replicas_stay_while_the_new_ones_are_not_ready() -> None:
    (requeue,) = reconcile(moving({"m1": 4, "m2": 3}))
    assert isinstance(requeue, RequeueAfter)
    assert 599 < requeue.seconds < 601


def test_holds_are_released_when_as_many_replicas_are_ready_elsewhere() -> None:
    effects = reconcile(moving({"m1": 4, "m2": 4}))
    (log,) = [effect for effect in effects if isinstance(effect, Move)]
    (after,) = [effect for effect in effects if isinstance(effect, Binding)]
    assert log.status.outcome == "Done"
    assert (after.status.holds, after.status.replacement) == ((), None)


def test_a_copy_of_an_earlier_move_that_is_gone_is_no_replacement() -> None:
    """The status of the binding still shows it, but its Work is gone, or is new and has reported nothing."""
    subject = moving({"m1": 4, "m2": 4})
    old = work(subject.status.aggregated_status[0])
    new = work(subject.status.aggregated_status[1]).but(status=WorkStatus())
    assert [type(effect) for effect in reconcile(subject, works=[old])] == [RequeueAfter]
    assert [type(effect) for effect in reconcile(subject, works=[old, new])] == [RequeueAfter]


def test_a_copy_that_is_being_deleted_is_no_replacement() -> None:
    subject = moving({"m1": 4, "m2": 4})
    old, new = map(work, subject.status.aggregated_status)
    leaving = new.but(metadata=new.metadata.but(deletion_timestamp=NOON))
    assert [type(effect) for effect in reconcile(subject, works=[old, leaving])] == [RequeueAfter]


@pytest.mark.parametrize(("ready", "now", "outcome"), [(4, NOON, "Done"), (1, LATER, "Reverted")])
def test_only_the_moves_out_of_held_clusters_end(ready: int, now: datetime, outcome: str) -> None:
    """An eviction out of another cluster goes on."""
    subject = moving({"m1": 4, "m2": ready})
    eviction = unfinished_move().but(metadata=Meta(name="f", namespace="demo", resource_version="1"))
    eviction = eviction.but(spec=eviction.spec.but(from_="m3", cause="ClusterFailover"))
    things = [cluster("m1"), cluster("m2"), cluster("m3"), *map(work, subject.status.aggregated_status)]
    view = FakeView([*things, unfinished_move(), eviction], now=now)
    written = [effect for effect in replacement_hold(subject, view) if isinstance(effect, Move)]
    assert [(move.name, move.status.outcome) for move in written] == [("e", outcome)]


def test_replicas_that_were_ready_before_the_move_are_no_replacement() -> None:
    before = StateBeforeMove(before=shares(m1=4, m2=2), ready=shares(m1=4, m2=2))
    growing = moving({"m1": 4, "m2": 5})
    subject = growing.but(spec=growing.spec.but(clusters=shares(m2=6)), status=growing.status.but(replacement=before))
    assert [type(effect) for effect in reconcile(subject)] == [RequeueAfter]


@pytest.mark.parametrize(("before", "after"), [({"m1": 4}, {}), ({"m1": 4, "m4": 2}, {"m4": 2})])
@pytest.mark.parametrize("divided", [True, False])
def test_holds_stay_while_the_replacement_was_evicted_and_nothing_was_decided_yet(
    before: dict[str, int], after: dict[str, int], divided: bool
) -> None:
    scheduling = ReplicaSchedulingStrategy(replica_scheduling_type="Divided" if divided else "Duplicated")
    subject = moving({"m1": 4, "m2": 0, "m4": 2})
    task = GracefulEvictionTask(from_cluster="m2", replicas=4, reason="TaintUntolerated", producer="TaintManager")
    evicted = subject.but(
        spec=subject.spec.but(
            clusters=shares(**after),
            replicas=sum(before.values()),
            placement=Placement(replica_scheduling=scheduling),
            graceful_eviction_tasks=(task,),
        ),
        status=subject.status.but(replacement=StateBeforeMove(before=shares(**before), ready=shares(**before))),
    )
    assert [type(effect) for effect in reconcile(evicted)] == [RequeueAfter]
    decided = evicted.but(spec=evicted.spec.but(clusters=shares(m3=4, **after)))
    assert [type(effect) for effect in reconcile(decided)] == [RequeueAfter]
    items = (*decided.status.aggregated_status, status_item("m3", status={"readyReplicas": 4}))
    ready = decided.but(status=decided.status.but(aggregated_status=items))
    assert any(isinstance(effect, Binding) and not effect.status.holds for effect in reconcile(ready))


def test_object_without_replicas_stays_while_its_new_copy_was_evicted() -> None:
    task = GracefulEvictionTask(from_cluster="m2", reason="TaintUntolerated", producer="TaintManager")
    config = moving({"m1": 0}, replicas=0)
    config = config.but(
        spec=config.spec.but(clusters=(), graceful_eviction_tasks=(task,)),
        status=config.status.but(replacement=StateBeforeMove(before=shares(m1=0))),
    )
    assert [type(effect) for effect in reconcile(config)] == [RequeueAfter]


def test_holds_of_replicas_that_nobody_wants_any_more_are_released() -> None:
    scheduling = ReplicaSchedulingStrategy(replica_scheduling_type="Divided")
    subject = moving({"m1": 4, "m2": 2})
    scaled = subject.but(
        spec=subject.spec.but(clusters=shares(m2=2), replicas=2, placement=Placement(replica_scheduling=scheduling))
    )
    assert any(isinstance(effect, Binding) and not effect.status.holds for effect in reconcile(scaled))


def test_a_replacement_that_is_not_ready_in_time_reverts_the_move() -> None:
    effects = reconcile(moving({"m1": 4, "m2": 1}), now=LATER)
    (log,) = [effect for effect in effects if isinstance(effect, Move)]
    (after,) = [effect for effect in effects if isinstance(effect, Binding)]
    assert log.status.outcome == "Reverted"
    assert after.spec.clusters == shares(m1=4)
    (stalled,) = [c for c in after.status.conditions if c.type == "Stalled"]
    assert (stalled.status, stalled.reason) == ("True", "MoveReverted")
    assert after.status.holds == ()


def test_only_a_reverted_failback_increments_undone() -> None:
    def undone(reason: str) -> int:
        subject = moving({"m1": 4, "m2": 1}, status_previous_placement=PreviousPlacement(reverted_failbacks=1))
        holds = tuple(one.but(reason=reason) for one in subject.status.holds)
        effects = reconcile(subject.but(status=subject.status.but(holds=holds)), now=LATER)
        (after,) = [effect for effect in effects if isinstance(effect, Binding)]
        return int(after.status.previous_placement.reverted_failbacks)

    assert (undone("Failback"), undone("Rebalance")) == (2, 1)


def test_a_move_out_of_a_cluster_that_is_not_ready_is_not_reverted() -> None:
    clusters = [cluster("m1", ready="False"), cluster("m2")]
    effects = list(replacement_hold(moving({"m1": 4, "m2": 1}), FakeView(clusters, now=LATER)))
    (after,) = [effect for effect in effects if isinstance(effect, Binding)]
    assert after.spec.clusters == shares(m2=4)
    assert after.status.holds == ()


def test_a_hold_whose_move_was_never_written_is_removed_after_a_timeout() -> None:
    announced = moving({"m1": 4})
    announced = announced.but(spec=announced.spec.but(clusters=shares(m1=4)))
    assert [type(effect) for effect in reconcile(announced)] == [RequeueAfter]
    (after,) = reconcile(announced, now=NOON + timedelta(seconds=31))
    assert after.status.holds == ()


def test_an_object_without_replicas_is_replaced_when_it_is_applied() -> None:
    config = moving({"m1": 0}, replicas=0)
    config = config.but(
        spec=config.spec.but(clusters=shares(m2=0)),
        status=config.status.but(replacement=StateBeforeMove(before=shares(m1=0))),
    )
    assert [type(effect) for effect in reconcile(config)] == [RequeueAfter]
    arrived = config.but(status=config.status.but(aggregated_status=(status_item("m1"), status_item("m2"))))
    (after,) = [effect for effect in reconcile(arrived) if isinstance(effect, Binding)]
    assert after.status.holds == ()


def test_a_binding_that_is_being_deleted_keeps_its_holds_to_the_end() -> None:
    subject = moving({"m1": 4, "m2": 4})
    assert reconcile(subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON))) == []
    assert reconcile(binding(clusters={"m1": 4})) == []


def test_a_hold_without_the_state_before_its_move_is_removed() -> None:
    subject = moving({"m1": 4, "m2": 0})
    (after,) = reconcile(subject.but(status=subject.status.but(replacement=None)))
    assert (after.status.holds, after.spec.clusters) == ((), subject.spec.clusters)


def test_the_message_of_a_reverted_move_names_only_clusters_that_grow() -> None:
    subject = moving({"m1": 4, "m2": 0})
    both = subject.but(spec=subject.spec.but(clusters=shares(m2=3, m1=1)))
    event = reconcile(both, now=LATER)[-1]
    assert "in m2 was not ready" in event.message


def test_a_cluster_that_changes_readiness_wakes_only_bindings_with_holds() -> None:
    down = cluster("m1", ready="False")
    view = FakeView([moving({}), binding("other", clusters={"m1": 1})])
    assert list(bindings_with_holds(down, cluster("m1"), view)) == [key_of(moving({}))]
    assert list(bindings_with_holds(cluster("m1"), cluster("m1"), view)) == []


def test_a_share_that_only_shrinks_needs_its_replacement_too() -> None:
    subject = moving({"m1": 4, "m2": 1})
    half = subject.but(
        spec=subject.spec.but(clusters=shares(m1=2, m2=2)),
        status=subject.status.but(holds=(subject.status.holds[0].but(replicas=2),)),
    )
    (requeue,) = reconcile(half)
    assert isinstance(requeue, RequeueAfter)


def settings_moving(*applied: str) -> Binding:
    """An object without replicas leaves m1 for m2; m3 had it before."""
    subject = binding(
        clusters={"m2": 0, "m3": 0},
        status_holds=(HeldReplicas(cluster="m1", replicas=0, since=NOON, until=LATER, reason="Rebalance"),),
        status_replacement=StateBeforeMove(before=shares(m1=0, m3=0)),
        status_aggregated_status=tuple(status_item(name, applied=name in applied) for name in ("m1", "m2", "m3")),
    )
    resource = subject.spec.resource.but(api_version="v1", kind="ConfigMap")
    return subject.but(spec=subject.spec.but(resource=resource))


@pytest.mark.parametrize(("applied", "released"), [(("m2",), True), (("m2", "m3"), True), (("m1", "m3"), False)])
def test_an_object_without_replicas_is_replaced_when_it_is_applied_where_it_is_new(
    applied: tuple[str, ...], released: bool
) -> None:
    subject = settings_moving(*applied)
    works = [work(item) for item in subject.status.aggregated_status]
    view = FakeView([cluster(name) for name in ("m1", "m2", "m3")] + works + [subject])
    written = [effect for effect in replacement_hold(subject, view) if isinstance(effect, Binding)]
    assert any(not one.status.holds for one in written) is released
