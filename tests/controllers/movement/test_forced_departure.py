"""A cluster that is forced out is taken out of placement, eviction tasks and moves in progress."""

from builders import NOON, binding, cluster, frozen
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.work import GracefulEvictionTask, HeldReplicas, ResourceBinding, StateBeforeMove, TargetCluster
from trimtab.controllers.contract import RequeueAfter
from trimtab.controllers.movement.forced_departure import binding_with_other_clusters, forced_departure


def forced_out(name="m2"):
    subject = cluster(name)
    return subject.but(
        metadata=subject.metadata.but(deletion_timestamp=NOON, annotations={"trimtab.dev/force-leave": "true"})
    )


def targets(**shares):
    return tuple(TargetCluster(name=name, replicas=n) for name, n in shares.items())


def test_move_is_logged_before_the_placement_changes() -> None:
    subject = binding(clusters={"m1": 1, "m2": 2})
    move, after, event = forced_departure(subject, FakeView([subject, cluster("m1"), forced_out()]))
    assert isinstance(move, Move)
    assert (move.spec.from_, move.spec.replicas, move.status.outcome) == ("m2", 2, "Done")
    assert after.spec.clusters == targets(m1=1)
    assert event.type == "Warning"


def test_other_moves_of_the_binding_go_on() -> None:
    subject = binding(
        clusters={"m1": 3},
        graceful_eviction_tasks=(GracefulEvictionTask(from_cluster="m2"), GracefulEvictionTask(from_cluster="m4")),
        status_holds=(HeldReplicas(cluster="m2", replicas=1), HeldReplicas(cluster="m3", replicas=2)),
        status_replacement=StateBeforeMove(before=targets(m2=1, m3=2)),
    )
    after, _ = forced_departure(subject, FakeView([subject, cluster("m1"), forced_out()]))
    assert isinstance(after, ResourceBinding)
    assert [hold.cluster for hold in after.status.holds] == ["m3"]
    assert after.status.replacement.before == targets(m3=2)
    assert [task.from_cluster for task in after.spec.graceful_eviction_tasks] == ["m4"]


def test_last_hold_ends_the_replacement() -> None:
    subject = binding(
        clusters={"m1": 2},
        status_holds=(HeldReplicas(cluster="m2", replicas=2),),
        status_replacement=StateBeforeMove(before=targets(m2=2)),
    )
    after, _ = forced_departure(subject, FakeView([subject, forced_out()]))
    assert (after.status.holds, after.status.replacement) == ((), None)


def test_nothing_happens_without_force() -> None:
    subject = binding(clusters={"m2": 2})
    assert list(forced_departure(subject, FakeView([subject, cluster("m2")]))) == []


def test_binding_that_is_being_deleted_is_left_alone() -> None:
    subject = binding(clusters={"m1": 1, "m2": 2})
    subject = subject.but(metadata=subject.metadata.but(deletion_timestamp=NOON))
    assert list(forced_departure(subject, FakeView([subject, cluster("m1"), forced_out()]))) == []


def test_cluster_keeps_its_copies_while_moves_are_frozen() -> None:
    subject = binding(clusters={"m1": 1, "m2": 2})
    (effect,) = forced_departure(subject, FakeView([subject, cluster("m1"), forced_out(), frozen()]))
    assert isinstance(effect, RequeueAfter)


def test_binding_is_woken_when_it_uses_other_clusters_while_any_cluster_leaves() -> None:
    before, after = binding(clusters={"m1": 2}), binding(clusters={"m2": 2})
    held = before.but(status=before.status.but(holds=(HeldReplicas(cluster="m2", replicas=1),)))
    leaving = FakeView([cluster("m1"), forced_out()])
    for old, new, concerned in (
        (before, after, True),
        (before, held, True),
        (None, before, True),
        (before, before, False),
        (after, None, False),
    ):
        assert list(binding_with_other_clusters(old, new, leaving)) == ([key_of(new)] if concerned else [])
        assert list(binding_with_other_clusters(old, new, FakeView([cluster("m1"), cluster("m2")]))) == []
