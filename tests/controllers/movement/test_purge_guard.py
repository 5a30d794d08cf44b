"""Deadlines for old copies that must be deleted first, in clusters that are not ready."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from builders import NOON, binding, cluster, deployment, works_by_cluster
from views import FakeView

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.policy import (
    ApplicationFailoverBehavior,
    ClusterFailoverBehavior,
    FailoverBehavior,
    PurgeDeadline,
)
from trimtab.api.kinds.work import Binding, GracefulEvictionTask, Work
from trimtab.api.profile import UPSTREAM
from trimtab.controllers import well_known
from trimtab.controllers.conditions import is_condition_true
from trimtab.controllers.contract import RequeueAfter
from trimtab.controllers.movement.binding_moves import stalled_condition_of
from trimtab.controllers.movement.graceful_eviction import graceful_eviction
from trimtab.controllers.movement.purge_guard import (
    PURGE_HELD,
    UNCONFIRMED,
    unpurged_copies,
    with_purge_conditions,
)
from trimtab.controllers.propagation.dispatch import dispatch
from trimtab.interpret.interpreter import Interpreter

SECOND = timedelta(seconds=1)
NOT_READY, READY = cluster("m1", ready="False"), cluster("m1")


def leaving(then: str = "", producer: str = well_known.TAINT_MANAGER, **fields: Any) -> Binding:
    task = GracefulEvictionTask(
        from_cluster="m1", purge_mode="Directly", producer=producer, reason="R", creation_timestamp=NOON
    )
    rule = PurgeDeadline(seconds=60, then=then) if then else None
    failover = FailoverBehavior(
        cluster=ClusterFailoverBehavior(purge_mode="Directly", purge_deadline=rule),
        application=ApplicationFailoverBehavior(),
    )
    return binding(clusters={"m2": 3}, graceful_eviction_tasks=(task,), failover=failover, **fields)


def old_work() -> Work:
    view = FakeView([], raws=[deployment()], interpreter=Interpreter.of())
    (work,) = works_by_cluster(list(dispatch(binding(clusters={"m1": 3}), view))).values()
    return work.but(metadata=work.metadata.but(resource_version="4", deletion_timestamp=NOON))


def view_of(where: Cluster, now: datetime, *, remains: bool = True, **options: Any) -> FakeView:
    things = [where, cluster("m2"), *([old_work()] if remains else [])]
    return FakeView(things, now=now, raws=[deployment()], interpreter=Interpreter.of(), **options)


@pytest.mark.parametrize(
    ("then", "where", "seconds", "starts"),
    [
        ("Proceed", NOT_READY, 59, False),
        ("Proceed", NOT_READY, 60, True),
        ("Proceed", READY, 60, False),
        ("Hold", NOT_READY, 60, False),
        ("", NOT_READY, 6000, False),
    ],
)
def test_a_new_copy_starts_after_the_deadline_only_with_proceed_and_an_unready_cluster(
    then: str, where: Cluster, seconds: int, starts: bool
) -> None:
    effects = list(dispatch(leaving(then), view_of(where, NOON + seconds * SECOND)))
    assert list(works_by_cluster(effects)) == (["m2"] if starts else [])
    if not starts:
        (requeue,) = [effect for effect in effects if isinstance(effect, RequeueAfter)]
        assert requeue.seconds == (1 if seconds == 59 else 5)


def conditions(subject: Binding, view: FakeView) -> dict[str, tuple[str, str]]:
    changed = [effect for effect in graceful_eviction(subject, view) if isinstance(effect, Binding)]
    after = changed[-1] if changed else subject
    return {c.type: (c.status, c.reason) for c in after.status.conditions}


def test_after_the_deadline_the_stalled_condition_names_the_blocking_copy() -> None:
    assert "Stalled" not in conditions(leaving("Hold"), view_of(NOT_READY, NOON + 59 * SECOND))
    assert conditions(leaving("Hold"), view_of(NOT_READY, NOON + 60 * SECOND))["Stalled"] == ("True", "WaitingForPurge")
    assert conditions(leaving(), view_of(NOT_READY, NOON + 600 * SECOND))["Stalled"] == ("True", "WaitingForPurge")
    assert "Stalled" not in conditions(leaving("Hold"), view_of(READY, NOON + 60 * SECOND))


def test_upstream_sets_no_condition_unless_the_policy_has_a_deadline() -> None:
    later = NOON + 100 * SECOND
    assert "Stalled" not in conditions(leaving(), view_of(NOT_READY, later, profile=UPSTREAM))
    assert conditions(leaving("Hold"), view_of(NOT_READY, later, profile=UPSTREAM))["Stalled"][0] == "True"


def test_an_unconfirmed_purge_is_reported_until_the_old_copy_is_deleted() -> None:
    (started,) = [
        effect
        for effect in graceful_eviction(leaving("Proceed"), view_of(NOT_READY, NOON + 60 * SECOND))
        if isinstance(effect, Binding)
    ]
    condition = {c.type: c for c in started.status.conditions}["PurgeUnconfirmed"]
    assert (condition.status, condition.reason) == ("True", "ClusterUnreachable")
    assert "m1 may still run" in condition.message
    done = started.but(spec=started.spec.but(graceful_eviction_tasks=()))
    assert conditions(done, view_of(NOT_READY, NOON + 90 * SECOND))["PurgeUnconfirmed"][0] == "True"
    assert conditions(done, view_of(READY, NOON + 90 * SECOND, remains=False))["PurgeUnconfirmed"] == (
        "False",
        "Purged",
    )


def test_each_kind_of_failover_has_its_own_deadline() -> None:
    by_application = leaving("Proceed", producer="resource-binding-application-failover-controller")
    assert works_by_cluster(list(dispatch(by_application, view_of(NOT_READY, NOON + 60 * SECOND)))) == {}


def test_only_immediate_evictions_whose_copy_remains_are_waited_for() -> None:
    subject = leaving("Hold")
    view = view_of(NOT_READY, NOON)
    assert [copy.cluster for copy in unpurged_copies(subject, [old_work()], view)] == ["m1"]
    assert unpurged_copies(subject, [], view) == []
    (task,) = subject.spec.graceful_eviction_tasks
    graceful = subject.but(spec=subject.spec.but(graceful_eviction_tasks=(task.but(purge_mode="Gracefully"),)))
    assert unpurged_copies(graceful, [old_work()], view) == []


def test_a_copy_that_holds_the_workload_and_one_that_does_not_are_reported_apart() -> None:
    late = NOON + 60 * SECOND
    for then, held, unconfirmed in (("Hold", True, False), ("Proceed", False, True)):
        after = with_purge_conditions(leaving(then), [old_work()], view_of(NOT_READY, late))
        stalled = stalled_condition_of(after)
        assert (stalled is not None and stalled.reason == PURGE_HELD) is held
        assert is_condition_true(after.status.conditions, UNCONFIRMED) is unconfirmed


def test_a_copy_stays_unconfirmed_until_it_is_deleted() -> None:
    late = view_of(NOT_READY, NOON + 60 * SECOND)
    unconfirmed = with_purge_conditions(leaving("Proceed"), [old_work()], late)
    without_task = unconfirmed.but(spec=unconfirmed.spec.but(graceful_eviction_tasks=()))
    assert is_condition_true(with_purge_conditions(without_task, [old_work()], late).status.conditions, UNCONFIRMED)
    purged = with_purge_conditions(without_task, [], late)
    assert not is_condition_true(purged.status.conditions, UNCONFIRMED)
    assert with_purge_conditions(purged, [old_work()], late) == purged
    staying = old_work()
    staying = staying.but(metadata=staying.metadata.but(deletion_timestamp=None))
    assert not is_condition_true(with_purge_conditions(without_task, [staying], late).status.conditions, UNCONFIRMED)
