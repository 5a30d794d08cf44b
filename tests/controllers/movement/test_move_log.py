"""Outcomes of Move objects."""

from datetime import timedelta
from typing import Any

from builders import NOON, binding, cluster, status_item
from views import FakeView

from trimtab.api.kinds.disruption import Move, MovedObject, MoveSpec, MoveStatus, MoveTarget
from trimtab.api.kinds.work import Binding, GracefulEvictionTask, HeldReplicas
from trimtab.api.value import Meta
from trimtab.controllers.contract import Delete, RequeueAfter
from trimtab.controllers.movement.binding_moves import GENERATION_ANNOTATION
from trimtab.controllers.movement.move_log import KEPT_PER_OBJECT, move_log, moves_of_binding

MINUTE = timedelta(minutes=1)


def move_entry(
    name: str = "e", *, generation: int = 2, outcome: str = "", age: timedelta = MINUTE, **spec: Any
) -> Move:
    about = MovedObject(api_version="apps/v1", kind="Deployment", namespace="demo", name="web")
    return Move(
        metadata=Meta(
            name=name, namespace="demo", resource_version="1", annotations={GENERATION_ANNOTATION: str(generation)}
        ),
        spec=MoveSpec(object=about, cause="ClusterFailover", from_="m1", replicas=2).but(**spec),
        status=MoveStatus(started=NOON - age, outcome=outcome, finished=NOON if outcome else None),
    )


def outcome(subject: Move, *things: Any) -> str:
    effects = list(move_log(subject, FakeView([subject, *things])))
    ended = [effect.status.outcome for effect in effects if isinstance(effect, Move)]
    return ended[0] if ended else ("later" if any(isinstance(effect, RequeueAfter) for effect in effects) else "")


def test_move_without_a_start_gets_one_so_that_it_times_out() -> None:
    entry = move_entry()
    crashed = entry.but(
        metadata=entry.metadata.but(creation_timestamp=NOON - MINUTE), status=entry.status.but(started=None)
    )
    (repaired,) = move_log(crashed, FakeView([crashed]))
    assert repaired.status.started == NOON - MINUTE


def web(**fields: Any) -> Binding:
    return binding(clusters={"m2": 2}, status_aggregated_status=(status_item("m2"),), **fields)


def test_a_move_is_done_when_the_placement_is_healthy() -> None:
    assert outcome(move_entry(), web()) == "Done"
    unhealthy = web().but(status=web().status.but(aggregated_status=(status_item("m2", "Unhealthy"),)))
    assert outcome(move_entry(), unhealthy) == "later"
    assert outcome(move_entry(age=61 * MINUTE), unhealthy) == "Stalled"


def test_a_move_is_not_done_before_the_scheduler_has_seen_the_placement() -> None:
    """What is healthy is the placement of the decision before."""
    assert outcome(move_entry(), web(status_scheduler_observed_generation=1)) == "later"


def test_a_move_is_not_done_while_the_target_reports_its_old_share() -> None:
    to = (MoveTarget(name="m2", replicas=1),)
    reported = {
        n: web().but(status=web().status.but(aggregated_status=(status_item("m2", status={"readyReplicas": n}),)))
        for n in (1, 2)
    }
    assert outcome(move_entry(to=to), cluster("m2"), reported[1]) == "later"
    assert outcome(move_entry(to=to), cluster("m2"), reported[2]) == "Done"


def test_a_move_is_unfinished_while_it_has_a_hold_or_an_eviction_task() -> None:
    assert outcome(move_entry(), web(status_holds=(HeldReplicas(cluster="m1", replicas=2),))) == ""
    task = GracefulEvictionTask(from_cluster="m1", producer="p", reason="R")
    assert outcome(move_entry(), web(graceful_eviction_tasks=(task,))) == ""


def test_a_move_that_never_began_is_cancelled_after_a_minute() -> None:
    assert outcome(move_entry(generation=3, age=MINUTE / 2), web()) == "later"
    assert outcome(move_entry(generation=3), web()) == "Cancelled"


def test_a_cancelled_eviction_cancels_its_move() -> None:
    assert outcome(move_entry(), binding(clusters={"m1": 2})) == "Cancelled"


def test_a_newer_move_from_the_same_cluster_supersedes_the_older() -> None:
    later = binding(clusters={"m2": 2})
    later = later.but(metadata=later.metadata.but(generation=5))
    assert outcome(move_entry(), move_entry("newer", generation=5), later) == "Superseded"


def test_a_newer_move_from_another_cluster_supersedes_nothing() -> None:
    later = move_entry("later", generation=3, from_="m3")
    task = GracefulEvictionTask(from_cluster="m1", producer="p", reason="R")
    current = web(graceful_eviction_tasks=(task,))
    assert outcome(move_entry(generation=2), later, current.but(metadata=current.metadata.but(generation=3))) == ""


def test_a_move_of_a_deleted_workload_is_cancelled() -> None:
    assert outcome(move_entry()) == "Cancelled"


def test_the_oldest_moves_beyond_the_limit_are_deleted() -> None:
    old = [move_entry(f"e{n:03}", outcome="Done", age=(100 - n) * MINUTE) for n in range(KEPT_PER_OBJECT + 2)]
    effects = list(move_log(old[-1], FakeView([*old, web()])))
    assert [effect.target.name for effect in effects if isinstance(effect, Delete)] == ["e000", "e001"]


def test_a_move_in_progress_stays_in_the_log_however_old_it_is() -> None:
    """The budget counts it until the log has its outcome; without it the next move would begin too early."""
    old = [move_entry(f"e{n:03}", outcome="Done", age=(100 - n) * MINUTE) for n in range(KEPT_PER_OBJECT + 1)]
    entries = [move_entry("open", age=200 * MINUTE), *old]
    effects = list(move_log(old[-1], FakeView([*entries, web()])))
    assert [effect.target.name for effect in effects if isinstance(effect, Delete)] == ["e000"]


def woken(old: Binding | None, new: Binding | None, *moves: Move) -> list[str]:
    return [key.name for key in moves_of_binding(old, new, FakeView(moves))]


def test_a_move_in_progress_is_reconciled_when_it_begins_and_when_it_may_end() -> None:
    task = GracefulEvictionTask(from_cluster="m1", producer="p", reason="R")
    evicting, holding = web(graceful_eviction_tasks=(task,)), web(status_holds=(HeldReplicas(cluster="m1"),))
    for going_on in (evicting, holding):
        assert woken(going_on, going_on, move_entry("open")) == []
        assert woken(None, going_on, move_entry("open")) == ["open"]
        assert woken(web(), going_on, move_entry("open")) == ["open"]
        assert woken(going_on, web(), move_entry("open")) == ["open"]
    assert woken(evicting, holding, move_entry("open")) == []
    elsewhere = web(graceful_eviction_tasks=(task.but(from_cluster="m3"),))
    assert woken(elsewhere, elsewhere, move_entry("open")) == ["open"]


def test_a_move_in_progress_is_reconciled_when_its_generation_is_reached() -> None:
    task = GracefulEvictionTask(from_cluster="m1", producer="p", reason="R")
    before = web(graceful_eviction_tasks=(task,))
    begun = before.but(metadata=before.metadata.but(generation=before.metadata.generation + 1))
    later = move_entry("later", generation=begun.metadata.generation)
    assert woken(before, before, later) == ["later"]
    assert woken(before, begun, later) == ["later"]
    assert woken(begun, begun, later) == []


def test_a_move_in_progress_is_reconciled_while_there_is_another_one() -> None:
    """The newer one may supersede it."""
    task = GracefulEvictionTask(from_cluster="m1", producer="p", reason="R")
    subject, moves = web(graceful_eviction_tasks=(task,)), (move_entry("first"), move_entry("second", generation=1))
    assert woken(subject, subject, *moves) == ["first", "second"]
    assert woken(subject, subject, move_entry("first"), move_entry("done", outcome="Done")) == []


def test_all_moves_of_a_deleted_workload_are_reconciled_so_that_they_expire() -> None:
    entries = [move_entry("done", outcome="Done"), move_entry("open")]
    view = FakeView([*entries, web()])
    assert [key.name for key in moves_of_binding(web(), web(), view)] == ["open"]
    assert sorted(key.name for key in moves_of_binding(web(), None, view)) == ["done", "open"]


def test_a_move_of_a_deleted_workload_is_kept_for_a_week() -> None:
    def effects_at(age: timedelta) -> list[Any]:
        entry = move_entry(outcome="Done")
        entry = entry.but(status=entry.status.but(finished=NOON - age))
        return list(move_log(entry, FakeView([entry])))

    (wait,) = effects_at(timedelta(days=6))
    assert wait == RequeueAfter(timedelta(days=1).total_seconds())
    (delete,) = effects_at(timedelta(days=7))
    assert isinstance(delete, Delete)
