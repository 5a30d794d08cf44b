"""The reconcile loop with one small controller: watch, cache, queue, reconcile, write."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runtime.copier import (
    COPIER,
    MAPS,
    SECRETS,
    SEEN,
    Harness,
    new_controller,
    new_secret,
    run_scenario,
    run_scenario_over_tls,
)
from trimtab.api.kind import kind_of
from trimtab.api.kinds.native.config import ConfigMap, Secret
from trimtab.api.value import Key, Raw
from trimtab.client.client import EVENTS
from trimtab.controllers.contract import (
    Effect,
    RecordEvent,
    Ref,
    RememberInProcess,
    RequeueAfter,
    Topic,
    Trigger,
    View,
    never,
)
from trimtab.errors import Forbidden
from trimtab.interpret.lua.sandbox import LIMITS, LuaLimits, ScriptResult, run_script
from trimtab.interpret.operations import InterpreterFailure
from trimtab.runtime.saved_tables import SavedQueue
from trimtab.runtime.script_answers import ScriptAnswers
from trimtab.runtime.view import ViewSources
from trimtab.server.local import LocalClient


async def lifecycle(harness: Harness) -> None:
    """Create, change, tamper with and delete: the controller restores what it wants each time."""
    await harness.create_map("a", text="Zmlyc3Q=")

    async def is_copied(text: str) -> bool:
        found = {s["metadata"]["name"]: s["data"] for s in (await harness.user.list(SECRETS, "default")).items}
        annotations = (await harness.get_map("a"))["metadata"].get("annotations", {})
        return found.get("a") == {"copy": text} and annotations.get("copied") == text

    await harness.until(lambda: is_copied("Zmlyc3Q="))
    await harness.user.patch(MAPS, "default", "a", {"data": {"text": "c2Vjb25k"}})
    await harness.until(lambda: is_copied("c2Vjb25k"))
    await harness.user.delete(SECRETS, "default", "a")
    await harness.until(lambda: is_copied("c2Vjb25k"))
    await harness.user.delete(MAPS, "default", "a")

    async def is_deleted() -> bool:
        return not [s for s in (await harness.user.list(SECRETS, "default")).items if s["metadata"]["name"] == "a"]

    await harness.until(is_deleted)


def test_controller_restores_what_it_wants() -> None:
    run_scenario(COPIER, lifecycle)


def test_controller_restores_what_it_wants_over_tls(tmp_path: Path) -> None:
    run_scenario_over_tls(COPIER, lifecycle, tmp_path)


def test_fault_is_visible_to_the_next_reconcile_and_cleared_by_a_success() -> None:
    faults: list[tuple[str, int] | None] = []

    def fails_first(source: ConfigMap, view: View) -> Iterator[Effect]:
        if source.name != "a":
            return
        faults.append((view.fault.reason, view.fault.attempts) if view.fault else None)
        if len(faults) < 3:
            yield new_secret("Not A Name", "")
        else:
            yield RequeueAfter(60)

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await asyncio.sleep(90)
        assert faults == [None, ("Invalid", 1), ("Invalid", 2), None]

    run_scenario(new_controller(fails_first, "Secret"), scenario)


def test_exception_in_a_controller_affects_only_its_key(caplog) -> None:
    def fails_on_a(source: ConfigMap, view: View) -> Iterator[Effect]:
        if source.name == "a":
            raise ZeroDivisionError
        yield RememberInProcess(SEEN, source.name, value=True)

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await harness.create_map("b")
        await asyncio.sleep(2)
        assert harness.manager.state.memory.recall(SEEN, "b")

    run_scenario(new_controller(fails_on_a, "status"), scenario)
    assert "copier failed on configmaps/default/a" in caplog.text
    assert {(record.controller, record.object) for record in caplog.records if "failed on" in record.message} == {
        ("copier", "configmaps/default/a")
    }


def test_requeue_after_reconciles_again_at_the_requested_time() -> None:
    times = []

    def requeue(source: ConfigMap, view: View) -> Iterator[Effect]:
        if source.name == "a":
            times.append(view.now)
            yield RequeueAfter(600)

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await asyncio.sleep(1900)

    run_scenario(new_controller(requeue, "status"), scenario)
    assert [late - early for early, late in pairwise(times)] == [timedelta(seconds=600)] * 3


def test_value_remembered_first_is_visible_to_the_next_reconcile() -> None:
    number: Topic[None, int] = Topic("number", shared=True)

    def take_number(source: ConfigMap, view: View) -> Iterator[Effect]:
        if "number" not in (source.data or {}) and view.get(ConfigMap, "default", "go") is not None:
            last = view.recall(number, None) or 0
            yield RememberInProcess(number, None, last + 1)
            yield source.but(data={"number": str(last + 1)})

    async def scenario(harness: Harness) -> None:
        for name in ("a", "b", "c", "d", "e", "f", "go"):
            await harness.create_map(name)
        await asyncio.sleep(1)
        harness.manager.enqueue_all("copier")
        await asyncio.sleep(2)
        maps = [one for one in (await harness.user.list(MAPS, "default")).items if "data" in one]
        numbers = [one["data"]["number"] for one in maps if "number" in one["data"]]
        assert len(numbers) == len(set(numbers)) >= 7

    run_scenario(new_controller(take_number, "data"), scenario)


@pytest.mark.parametrize("batch", [1, 8])
def test_subjects_are_reconciled_one_by_one_or_in_batches(batch: int) -> None:
    def reconcile_one(source: ConfigMap, view: View) -> Iterator[Effect]:
        yield RememberInProcess(SEEN, source.name, value=True)

    def reconcile_batch(sources: list[ConfigMap], view: View) -> Iterator[tuple[ConfigMap, Effect]]:
        for source in sources:
            yield source, RememberInProcess(SEEN, source.name, value=True)

    async def scenario(harness: Harness) -> None:
        for name in "abc":
            await harness.create_map(name)
        await asyncio.sleep(2)
        assert {*harness.manager.state.memory.keys(SEEN)} >= {"a", "b", "c"}

    run_scenario(new_controller(reconcile_batch if batch > 1 else reconcile_one, "status", batch=batch), scenario)


@pytest.mark.parametrize("handles_deletion", [True, False])
def test_deleted_subject_is_reconciled_only_by_controllers_that_handle_deletion(handles_deletion: bool) -> None:
    deleted: list[str] = []

    def reconcile(source: ConfigMap, view: View) -> Iterator[Effect]:
        yield from ()

    def subject_deleted(key: Key, view: View) -> Iterator[Effect]:
        deleted.append(key.name)
        yield from ()

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await asyncio.sleep(1)
        before = harness.manager.reconcilers[0].reconciles
        await harness.user.delete(MAPS, "default", "a")
        await asyncio.sleep(1)
        assert harness.manager.reconcilers[0].reconciles - before == int(handles_deletion)

    run_scenario(
        new_controller(reconcile, "status", on_deleted=subject_deleted if handles_deletion else None), scenario
    )
    assert deleted == (["a"] if handles_deletion else [])


def test_controller_that_ignores_its_subjects_is_triggered_by_wakes_only() -> None:
    def remember_name(source: ConfigMap, view: View) -> Iterator[Effect]:
        yield RememberInProcess(SEEN, source.name, value=True)

    def same_name(old: Secret | None, new: Secret | None, view: View) -> Iterator[Key]:
        if new is not None:
            yield Key(kind_of(ConfigMap).id, new.namespace, new.name)

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await harness.create_map("b")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "default", "name": "a"}}
        await harness.user.create(SECRETS, secret)
        await asyncio.sleep(1)
        assert harness.manager.state.memory.keys(SEEN) == ["a"]

    run_scenario(new_controller(remember_name, "status", predicate=never, wakes=[Trigger(Secret, same_name)]), scenario)


@pytest.mark.parametrize("batch", [1, 8])
def test_routine_events_are_not_recorded_unless_the_profile_says_so(batch: int) -> None:
    def events_of(source: ConfigMap) -> Iterator[RecordEvent]:
        about = Ref("v1", "ConfigMap", "default", source.name, source.metadata.uid)
        yield RecordEvent(about, "Looked", "as always", "copier", routine=True)
        yield RecordEvent(about, "Found", "something", "copier")

    def reconcile_one(source: ConfigMap, view: View) -> Iterator[Effect]:
        yield from events_of(source)

    def reconcile_batch(sources: list[ConfigMap], view: View) -> Iterator[tuple[ConfigMap, Effect]]:
        for source in sources:
            yield from ((source, event) for event in events_of(source))

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await asyncio.sleep(2)
        events = (await harness.user.list(EVENTS, "default")).items
        assert {event["reason"] for event in events if event["involvedObject"]["name"] == "a"} == {"Found"}

    run_scenario(new_controller(reconcile_batch if batch > 1 else reconcile_one, "status", batch=batch), scenario)


class RefusingClient(LocalClient):
    """A host that refuses the first patch."""

    refused = False

    async def patch(self, *arguments: Any, **options: Any) -> Raw:
        if not self.refused:
            self.refused = True
            raise Forbidden("not yet")
        return await super().patch(*arguments, **options)


def test_reconcile_that_lacks_an_answer_writes_nothing_and_keeps_its_fault() -> None:
    gate, faults = asyncio.Event(), []

    async def run_gated(
        script: str, hook: str, arguments: Sequence[Any], limits: LuaLimits = LIMITS
    ) -> ScriptResult | InterpreterFailure:
        await gate.wait()
        return run_script(script, hook, arguments, limits)

    answers = ScriptAnswers(run_gated, steady_seconds=lambda: 0.0)

    def label(source: ConfigMap, view: View) -> Iterator[Effect]:
        if source.name != "a" or "answer" in source.metadata.labels:
            return
        faults.append(view.fault.code if view.fault is not None else None)
        yield RememberInProcess(SEEN, source.name, value=True)
        content = str(len(faults) > 2)  # the third reconcile asks something new, after a refused write
        outcome = answers("function F(text) return 'from-the-script' end", "F", [content])
        assert isinstance(outcome, ScriptResult)
        yield source.but(metadata=source.metadata.but(labels={"answer": outcome.values[0]}))

    async def scenario(harness: Harness) -> None:
        await harness.create_map("a")
        await asyncio.sleep(5)
        memory = harness.manager.state.memory
        assert (await harness.get_map("a"))["metadata"].get("labels") is None
        assert memory.recall(SEEN, "a") is None, "a value that was yielded before the question is not kept"
        assert not harness.manager.is_idle
        gate.set()
        await asyncio.sleep(5)
        assert (await harness.get_map("a"))["metadata"]["labels"] == {"answer": "from-the-script"}
        assert harness.manager.is_idle
        assert faults == [None, None, 403, 403], "the question in between does not clear the fault"
        await answers.close()

    run_scenario(
        new_controller(label, "metadata.labels"), scenario, RefusingClient, sources=ViewSources(scripts=answers)
    )


def test_keys_that_are_not_finished_or_wait_for_a_time_are_saved_and_queued_again() -> None:
    async def scenario(harness: Harness) -> None:
        [reconciler] = harness.manager.reconcilers
        waiting, queued = Key(kind_of(ConfigMap).id, "demo", "later"), Key(kind_of(ConfigMap).id, "demo", "now")
        await reconciler.queue.wait_until_done(lambda _: True)
        reconciler.queue.add_after(waiting, 60)
        reconciler.queue.add(queued)
        saved = reconciler.save(1000.0)
        assert saved == SavedQueue([queued], [(waiting, 1060.0)])
        reconciler.queue.cancel_timer(waiting)
        await asyncio.sleep(1)
        reconciler.resume(saved, 1040.0)
        assert reconciler.queue.unfinished_keys() == [queued]
        assert [(key, round(left)) for key, left in reconciler.queue.delays()] == [(waiting, 20)]

    run_scenario(new_controller(lambda _subject, _view: iter(()), resumes=True), scenario)
