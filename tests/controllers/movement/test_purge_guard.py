"""Copies that must be gone first, in clusters that do not answer."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from builders import NOON, binding, cluster, deployment, works
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
from trimtab.controllers.contract import Again
from trimtab.controllers.movement.graceful_eviction import evict
from trimtab.controllers.propagation.dispatch import dispatch
from trimtab.interpret.interpreter import Interpreter

SECOND = timedelta(seconds=1)
DARK, LIT = cluster("m1", ready="False"), cluster("m1")


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
    view = FakeView([], raws=[deployment()], parts={"interpreter": Interpreter.of()})
    (work,) = works(list(dispatch(binding(clusters={"m1": 3}), view))).values()
    return work.but(metadata=work.metadata.but(resource_version="4", deletion_timestamp=NOON))


def seen(where: Cluster, now: datetime, *, remains: bool = True, **options: Any) -> FakeView:
    things = [where, cluster("m2"), *([old_work()] if remains else [])]
    return FakeView(things, now=now, raws=[deployment()], parts={"interpreter": Interpreter.of()}, **options)


@pytest.mark.parametrize(
    ("then", "where", "seconds", "starts"),
    [
        ("Proceed", DARK, 59, False),
        ("Proceed", DARK, 60, True),
        ("Proceed", LIT, 60, False),
        ("Hold", DARK, 60, False),
        ("", DARK, 6000, False),
    ],
)
def test_a_new_copy_starts_after_the_deadline_only_if_so_asked_and_the_cluster_is_dark(
    then: str, where: Cluster, seconds: int, starts: bool
) -> None:
    wishes = list(dispatch(leaving(then), seen(where, NOON + seconds * SECOND)))
    assert list(works(wishes)) == (["m2"] if starts else [])
    if not starts:
        (again,) = [wish for wish in wishes if isinstance(wish, Again)]
        assert again.seconds == (1 if seconds == 59 else 5)


def conditions(subject: Binding, view: FakeView) -> dict[str, tuple[str, str]]:
    changed = [wish for wish in evict(subject, view) if isinstance(wish, Binding)]
    after = changed[-1] if changed else subject
    return {c.type: (c.status, c.reason) for c in after.status.conditions}


def test_after_the_deadline_the_binding_says_what_it_waits_for() -> None:
    assert "Stalled" not in conditions(leaving("Hold"), seen(DARK, NOON + 59 * SECOND))
    assert conditions(leaving("Hold"), seen(DARK, NOON + 60 * SECOND))["Stalled"] == ("True", "PurgeHeld")
    assert conditions(leaving(), seen(DARK, NOON + 600 * SECOND))["Stalled"] == ("True", "PurgeHeld")
    assert "Stalled" not in conditions(leaving("Hold"), seen(LIT, NOON + 60 * SECOND))


def test_upstream_says_nothing_unless_the_policy_has_the_deadline() -> None:
    later = NOON + 100 * SECOND
    assert "Stalled" not in conditions(leaving(), seen(DARK, later, profile=UPSTREAM))
    assert conditions(leaving("Hold"), seen(DARK, later, profile=UPSTREAM))["Stalled"][0] == "True"


def test_what_was_started_too_early_is_told_until_the_old_copy_is_gone() -> None:
    (started,) = [
        wish for wish in evict(leaving("Proceed"), seen(DARK, NOON + 60 * SECOND)) if isinstance(wish, Binding)
    ]
    said = {c.type: c for c in started.status.conditions}["PurgeUnconfirmed"]
    assert (said.status, said.reason) == ("True", "ClusterUnreachable")
    assert "m1 may still run" in said.message
    done = started.but(spec=started.spec.but(graceful_eviction_tasks=()))
    assert conditions(done, seen(DARK, NOON + 90 * SECOND))["PurgeUnconfirmed"][0] == "True"
    assert conditions(done, seen(LIT, NOON + 90 * SECOND, remains=False))["PurgeUnconfirmed"] == ("False", "Purged")


def test_each_kind_of_failover_has_its_own_deadline() -> None:
    by_application = leaving("Proceed", producer="resource-binding-application-failover-controller")
    assert works(list(dispatch(by_application, seen(DARK, NOON + 60 * SECOND)))) == {}
