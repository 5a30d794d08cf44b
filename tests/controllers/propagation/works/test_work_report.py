"""What a Work says about its manifests."""

import pytest
from builders import NOON, cluster
from views import FakeView

from controllers.propagation.works.test_execute import object_in_member, work_for
from trimtab.api.kinds.work import Work
from trimtab.api.profile import TRIMTAB, UPSTREAM, Profile
from trimtab.controllers import well_known
from trimtab.controllers.conditions import find_condition
from trimtab.controllers.contract import Ensure, ReconcileFault, RecordEvent, RememberInProcess
from trimtab.controllers.propagation.works.work_delivery import ManifestDelivery
from trimtab.controllers.propagation.works.work_report import (
    REFLECTED,
    is_lost_race,
    report_problems,
    report_status,
    with_dispatching,
)
from trimtab.interpret.interpreter import Interpreter

WORK = work_for()
MANIFEST = WORK.spec.workload.manifests[0]
REF = well_known.ref_without_uid(MANIFEST)


def item(problem: str = "", write: Ensure | None = None) -> ManifestDelivery:
    return ManifestDelivery(REF, MANIFEST, object_in_member(WORK), write, problem)


def test_a_problem_makes_the_work_not_applied_and_is_an_event_once() -> None:
    view = FakeView()
    (written, *events) = report_problems(WORK, [item("no right"), item()], cluster("m1"), view)
    assert isinstance(written, Work)
    applied = find_condition(written.status.conditions, "Applied")
    assert applied is not None
    assert (applied.status, "(1/2)" in applied.message, "no right" in applied.message) == ("False", True, True)
    assert any(isinstance(event, RecordEvent) and event.reason == "SyncFailed" for event in events)
    assert list(report_problems(written, [item("no right"), item()], cluster("m1"), view)) == []


def test_without_a_problem_nothing_is_reported() -> None:
    assert list(report_problems(WORK, [item()], cluster("m1"), FakeView())) == []


@pytest.mark.parametrize(
    ("reason", "apply_as", "lost"),
    [
        ("Conflict", "", True),
        ("AlreadyExists", "", True),
        ("Conflict", "work-agent", False),
        ("Forbidden", "", False),
    ],
)
def test_a_lost_race_is_not_reported_but_a_conflict_of_managers_is(reason: str, apply_as: str, lost: bool) -> None:
    fault = ReconcileFault(409, reason, "it failed", "m1", 1)
    assert is_lost_race(fault, [item(write=Ensure(MANIFEST, apply_as=apply_as))]) == lost
    view = FakeView(fault=fault)
    reported = list(report_problems(WORK, [item(write=Ensure(MANIFEST, apply_as=apply_as))], cluster("m1"), view))
    assert bool(reported) != lost


def test_an_applied_work_has_the_status_of_every_object_that_was_seen() -> None:
    unseen = ManifestDelivery(REF, MANIFEST, None, None, "")
    conditions = with_dispatching(WORK, NOON, suspended=False)
    written = next(iter(report_status(WORK, [item(), unseen], conditions, FakeView())))
    assert isinstance(written, Work)
    applied = find_condition(written.status.conditions, "Applied")
    assert applied is not None
    assert applied.status == "True"
    assert len(written.status.manifest_statuses) == 1


def failing_interpreter() -> Interpreter:
    script = {"luaScript": "function InterpretHealth(observed) error('no') end"}
    target = {"apiVersion": "apps/v1", "kind": "Deployment"}
    customizations = {"healthInterpretation": script}
    return Interpreter.of(
        [{"metadata": {"name": "failing"}, "spec": {"target": target, "customizations": customizations}}]
    )


@pytest.mark.parametrize(
    ("profile", "interpreter", "reasons"),
    [
        (TRIMTAB, Interpreter.of(), []),
        (TRIMTAB, failing_interpreter(), ["InterpretHealthFailed"]),
        (UPSTREAM, Interpreter.of(), ["WorkDispatching", "ReflectStatusSucceed", "InterpretHealthSucceed"]),
    ],
    ids=["trimtab", "failing", "upstream"],
)
def test_reported_versions_are_remembered_where_they_have_events(
    profile: Profile, interpreter: Interpreter, reasons: list[str]
) -> None:
    conditions = with_dispatching(WORK, NOON, suspended=False)
    view = FakeView(profile=profile, interpreter=interpreter)
    _, *others = report_status(WORK, [item()], conditions, view)
    assert [other.reason for other in others if isinstance(other, RecordEvent)] == reasons
    remembered = [other for other in others if isinstance(other, RememberInProcess)]
    assert [other.topic for other in remembered] == ([REFLECTED] if reasons else [])
    for memory in remembered:
        view.memory[memory.topic, memory.key] = memory.value
    _, *again = report_status(WORK, [item()], conditions, view)
    assert not [other for other in again if isinstance(other, RecordEvent) and other.reason != "WorkDispatching"]


def test_a_suspended_work_says_so() -> None:
    found = find_condition(with_dispatching(WORK, NOON, suspended=True), "Dispatching")
    assert found is not None
    assert (found.status, found.reason) == ("False", "SuspendDispatching")
