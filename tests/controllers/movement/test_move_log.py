"""How entries in the log of moves end."""

from datetime import timedelta
from typing import Any

from builders import NOON, binding, cluster, item
from views import FakeView

from trimtab.api.kinds.disruption import Move, MovedObject, MoveSpec, MoveStatus, MoveTarget
from trimtab.api.kinds.work import Binding, GracefulEvictionTask, Hold
from trimtab.api.value import Meta
from trimtab.controllers.contract import Again, Gone
from trimtab.controllers.movement.binding_moves import GENERATION
from trimtab.controllers.movement.move_log import KEPT_PER_OBJECT, journal

MINUTE = timedelta(minutes=1)


def entry(name: str = "e", *, generation: int = 2, outcome: str = "", age: timedelta = MINUTE, **spec: Any) -> Move:
    about = MovedObject(api_version="apps/v1", kind="Deployment", namespace="demo", name="web")
    return Move(
        metadata=Meta(name=name, namespace="demo", resource_version="1", annotations={GENERATION: str(generation)}),
        spec=MoveSpec(object=about, cause="ClusterFailover", from_="m1", replicas=2).but(**spec),
        status=MoveStatus(started=NOON - age, outcome=outcome, finished=NOON if outcome else None),
    )


def outcome(subject: Move, *things: Any) -> str:
    wishes = list(journal(subject, FakeView([subject, *things])))
    ended = [wish.status.outcome for wish in wishes if isinstance(wish, Move)]
    return ended[0] if ended else ("later" if any(isinstance(wish, Again) for wish in wishes) else "")


def web(**fields: Any) -> Binding:
    return binding(clusters={"m2": 2}, status_aggregated_status=(item("m2"),), **fields)


def test_a_move_is_done_when_the_placement_is_healthy() -> None:
    assert outcome(entry(), web()) == "Done"
    ill = web().but(status=web().status.but(aggregated_status=(item("m2", "Unhealthy"),)))
    assert outcome(entry(), ill) == "later"
    assert outcome(entry(age=61 * MINUTE), ill) == "Stalled"


def test_a_move_is_not_done_while_what_gained_tells_of_the_share_it_had_before() -> None:
    to = (MoveTarget(name="m2", replicas=1),)
    told = {
        n: web().but(status=web().status.but(aggregated_status=(item("m2", status={"readyReplicas": n}),)))
        for n in (1, 2)
    }
    assert outcome(entry(to=to), cluster("m2"), told[1]) == "later"
    assert outcome(entry(to=to), cluster("m2"), told[2]) == "Done"


def test_while_something_is_held_or_leaves_it_goes_on() -> None:
    assert outcome(entry(), web(status_holds=(Hold(cluster="m1", replicas=2),))) == ""
    task = GracefulEvictionTask(from_cluster="m1", producer="p", reason="R")
    assert outcome(entry(), web(graceful_eviction_tasks=(task,))) == ""


def test_a_move_that_never_began_is_cancelled_after_a_minute() -> None:
    assert outcome(entry(generation=3, age=MINUTE / 2), web()) == "later"
    assert outcome(entry(generation=3), web()) == "Cancelled"


def test_an_eviction_that_was_called_off_is_cancelled() -> None:
    assert outcome(entry(), binding(clusters={"m1": 2})) == "Cancelled"


def test_a_newer_move_from_the_same_cluster_takes_over() -> None:
    later = binding(clusters={"m2": 2})
    later = later.but(metadata=later.metadata.but(generation=5))
    assert outcome(entry(), entry("newer", generation=5), later) == "Superseded"


def test_a_move_of_a_workload_that_is_gone_is_over() -> None:
    assert outcome(entry()) == "Cancelled"


def test_the_log_is_bounded() -> None:
    old = [entry(f"e{n:03}", outcome="Done", age=(100 - n) * MINUTE) for n in range(KEPT_PER_OBJECT + 2)]
    wishes = list(journal(old[-1], FakeView([*old, web()])))
    assert [wish.target.name for wish in wishes if isinstance(wish, Gone)] == ["e000", "e001"]
