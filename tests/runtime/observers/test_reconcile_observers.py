"""Observers see every reconcile once, with its times and how it ended."""

import asyncio
from collections.abc import Iterator

from runtime.copier import COPIER, Harness, new_controller, new_secret, run_scenario
from trimtab.api.kinds.native.config import ConfigMap
from trimtab.api.value import Key
from trimtab.controllers.contract import Effect, View
from trimtab.runtime.observers.reconcile_observers import FinishedReconcile, ReconcileTimes

KEY = Key("configmaps", "default", "a")


def test_reconcile_is_reported_once_with_its_failure() -> None:
    seen: list[FinishedReconcile] = []
    times = ReconcileTimes("copier", [seen.append])
    times.begin([KEY], lambda _: None)
    times.fail(KEY, "Conflict")
    times.end(KEY, had_effects=True)
    times.end(KEY, had_effects=True)
    times.begin([KEY], lambda _: None)
    times.end(KEY, had_effects=False)
    assert [(one.controller, one.failure, one.had_effects) for one in seen] == [
        ("copier", "Conflict", True),
        ("copier", "", False),
    ]
    assert all(one.seconds >= 0 for one in seen)


def test_bug_in_an_observer_is_logged_and_the_others_are_called(caplog) -> None:
    seen: list[FinishedReconcile] = []

    def fails(_: FinishedReconcile) -> None:
        raise ZeroDivisionError

    times = ReconcileTimes("copier", [fails, seen.append])
    times.begin([KEY], lambda _: None)
    times.end(KEY, had_effects=False)
    assert len(seen) == 1
    assert "an observer of copier failed" in caplog.text


def test_reconciler_reports_writes_faults_and_reconciles_without_effects() -> None:
    seen: list[FinishedReconcile] = []

    def sometimes_fails(source: ConfigMap, view: View) -> Iterator[Effect]:
        if source.name == "bad":
            yield new_secret("Not A Name", "")
        elif source.name == "bug":
            raise ZeroDivisionError
        elif source.name == "good" and view.fault is None and not source.metadata.annotations:
            yield source.but(metadata=source.metadata.but(annotations={"copied": "x"}))

    async def scenario(harness: Harness) -> None:
        for name in ("bad", "bug", "good"):
            await harness.create_map(name)
        await asyncio.sleep(1)

    controller = new_controller(sometimes_fails, "Secret", "metadata.annotations")
    run_scenario(controller, scenario, observers=[seen.append])
    ends = {(one.key.name, one.failure, one.had_effects) for one in seen}
    assert {("bad", "Invalid", True), ("bug", "ControllerFailed", False), ("good", "", True)} <= ends
    assert ("good", "", False) in ends, "its own write is reconciled again, without an effect"


def test_without_observers_nothing_is_recorded() -> None:
    async def scenario(harness: Harness) -> None:
        assert all(reconciler._times is None for reconciler in harness.manager.reconcilers)

    run_scenario(COPIER, scenario)
