"""What a decision leaves in its binding, and when it is tried again."""

from datetime import timedelta

from builders import NOON, binding
from views import FakeView

from controllers.propagation.scheduling.test_adjustment import decide, plugins  # noqa: F401 - a fixture
from trimtab.controllers import well_known
from trimtab.controllers.contract import RecordEvent
from trimtab.controllers.movement import binding_moves
from trimtab.controllers.movement.gate import MOVE_BLOCKED
from trimtab.controllers.propagation.scheduling.result import (
    report_stalled,
    seconds_until_retry,
    status_after,
    with_decision,
    without_blocked_condition,
    without_decision_record,
)


def test_a_decision_is_written_with_the_placement_for_which_it_was_made() -> None:
    subject = binding(replicas=3)
    placed = with_decision(subject, decide(subject, "m1"))
    assert binding_moves.current_placement(placed) == {"m1": 3}
    assert placed.metadata.annotations[well_known.APPLIED_PLACEMENT] == "{}"


def test_the_observed_generation_counts_the_write_of_the_placement() -> None:
    subject, view = binding(replicas=3), FakeView()
    decision = decide(subject, "m1")
    assert status_after(subject, decision, view, moved=True).scheduler_observed_generation == 3
    assert status_after(subject, decision, view, moved=False).scheduler_observed_generation == 2


def test_a_request_of_the_future_is_answered_too() -> None:
    later = NOON + timedelta(seconds=1)
    subject = binding(replicas=3, reschedule_triggered_at=later)
    assert status_after(subject, decide(subject, "m1"), FakeView(), moved=True).last_scheduled_time == later


def test_a_decision_that_confirms_the_last_differs_only_in_its_record() -> None:
    subject = binding(replicas=3)
    decision = decide(subject, "m1")
    first = status_after(subject, decision, FakeView(), moved=False)
    second = status_after(subject.but(status=first), decision, FakeView(now=NOON + timedelta(minutes=5)), moved=False)
    assert first != second
    assert without_decision_record(first) == without_decision_record(second)


def test_a_blocked_move_is_reported_once() -> None:
    subject, view = binding(clusters={"m1": 3}), FakeView()
    written, event = report_stalled(subject, MOVE_BLOCKED, "no", view)
    assert isinstance(event, RecordEvent)
    assert list(report_stalled(written, MOVE_BLOCKED, "no", view)) == []  # type: ignore[arg-type]
    assert len(list(report_stalled(written, MOVE_BLOCKED, "another reason", view))) == 2  # type: ignore[arg-type]
    cleared = without_blocked_condition(written, view)  # type: ignore[arg-type]
    stalled = binding_moves.stalled_condition_of(cleared)
    assert stalled is None or stalled.status != "True"


def test_a_decision_that_failed_for_other_reasons_is_tried_again_soon() -> None:
    subject = binding(replicas=3)
    assert seconds_until_retry(decide(subject, "m1"), FakeView()) == 10.0
