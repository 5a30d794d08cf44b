"""Every reachable state of a small fleet keeps the promises of a move (see `movement_model.py`).

`make test` explores whole reconciles with a crash after any of their writes. `make soak` also interleaves the writes of two
reconciles with each other and with everything that can happen in between, and lets a cluster fail, recover or leave the fleet
at any time of a move.
The defects at the end show that the exploration finds what it is for, and that its reductions hide none of them.
"""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from builders import NOON

from properties.hypothesis_settings import EFFORT
from properties.movement_exploration import Exploration, Violation, explore
from properties.movement_model import (
    CONTROLLERS,
    REPLICAS,
    ModelState,
    Step,
    compute_reconcile,
    initial_state,
    send_next,
    wanted_pods,
)
from properties.movement_normal_form import EXPIRED, Normalizer
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget, Move
from trimtab.api.kinds.work import ResourceBinding
from trimtab.controllers.clusters.departure import is_terminating
from trimtab.controllers.contract import Effect, View, WriteSequence
from trimtab.controllers.movement import (
    binding_moves,
    cluster_departure,
    gate,
    graceful_eviction,
    move_start,
    replacement_hold,
    state,
)
from trimtab.controllers.propagation import dispatch

LIMIT = 200_000
UNFAIR = ("crash", "rebalance", "fail", "drain", "unjoin")
"""Steps that nobody has to take: the machine comes to rest without them."""
JUST_NOW = NOON - timedelta(seconds=1)


def broken_promise(before: ModelState, step: Step) -> str:
    """What a step breaks; empty if it keeps all promises."""
    return broken_by_any_step(step.to) or (broken_by_controller(before, step.to) if step.cause in CONTROLLERS else "")


def used_clusters(model: ModelState) -> set[str]:
    """The clusters in which replicas are placed, held or ready; ready ones do not count after a failure."""
    held = {hold.cluster for hold in model.binding.status.holds}
    ready = {name for name, n in model.pods.items() if n and not model.has_failed}
    return held | ready | binding_moves.current_placement(model.binding).keys()


def broken_by_any_step(model: ModelState) -> str:
    placed = sum(binding_moves.current_placement(model.binding).values())
    leaving = sum(task.replicas or 0 for task in model.binding.spec.graceful_eviction_tasks)
    # The task of a cluster that is down may end before the scheduler has run; `is_settled` requires all replicas again.
    if placed > REPLICAS or (placed + leaving < REPLICAS and not model.has_failed):
        return f"{placed} replicas are placed and {leaving} are leaving, of {REPLICAS}"
    for name in used_clusters(model):
        if ("Cluster", "", name) not in model.objects:
            return f"{name} has left the fleet with replicas"
    most = model.budget.spec.max_concurrent or 0
    if len(model.budget.status.in_flight) > most:
        return f"{len(model.budget.status.in_flight)} moves are charged to a budget that allows {most}"
    return ""


def broken_by_controller(before: ModelState, after: ModelState) -> str:
    if before.serving and not after.serving:
        return "the last ready replica is removed"
    limit = before.budget.spec.min_available
    if isinstance(limit, int) and not before.has_failed and after.serving < min(before.serving, limit):
        return f"{after.serving} replicas serve; the budget requires {limit}"
    charged = {entry.from_ for entry in after.budget.status.in_flight}
    logged = {move.spec.from_ for move in after.all(Move) if not move.status.outcome}
    held_before = {hold.cluster for hold in before.binding.status.holds}
    for hold in after.binding.status.holds:
        if hold.cluster not in held_before and not (hold.cluster in charged and hold.cluster in logged):
            return f"replicas leave {hold.cluster}, but no budget is charged or no Move is in progress"
    return ""


def is_settled(model: ModelState) -> bool:
    """Nothing moves, everything that should run is ready, no budget is charged, and who had to leave the fleet has left."""
    binding = model.binding
    stamp, last = binding.spec.reschedule_triggered_at, binding.status.last_scheduled_time
    return (
        not model.running
        and not any(map(is_terminating, model.all(Cluster)))
        and not binding.status.holds
        and not binding.spec.graceful_eviction_tasks
        and not (stamp is not None and last is not None and stamp > last)
        and not model.budget.status.in_flight
        and all(move.status.outcome for move in model.all(Move))
        and sum(binding_moves.current_placement(binding).values()) == REPLICAS
        and all(model.pods[name] == wanted_pods(model.work_in(name)) for name in model.pods if model.is_reachable(name))
    )


def states_without_end(found: Exploration) -> list[int]:
    """The states from which no settled state can be reached."""
    sources: list[list[int]] = [[] for _ in found.facts]
    for index, steps in enumerate(found.steps):
        for cause, target in steps:
            if cause.split()[0] not in UNFAIR:
                sources[target].append(index)
    ending = {index for index, facts in enumerate(found.facts) if facts.is_settled}
    waiting = deque(ending)
    while waiting:
        for index in sources[waiting.popleft()]:
            if index not in ending:
                ending.add(index)
                waiting.append(index)
    return sorted(set(range(len(found.facts))) - ending)


def assert_explored(start: ModelState, concurrency: int) -> Exploration:
    found = explore(start, broken_promise, is_settled, concurrency=concurrency, limit=LIMIT)
    endless = states_without_end(found)
    assert not endless, f"no way to a settled state after {' > '.join(found.path_to(endless[0]))}"
    assert any(facts.is_settled and facts.ready[1] for facts in found.facts), "no move was ever finished"
    return found


def test_a_rebalance_keeps_every_promise_in_every_reachable_state() -> None:
    found = assert_explored(initial_state("rebalance"), concurrency=0)
    assert "MoveReverted" in {facts.stalled for facts in found.facts}, (
        "the exploration must see moves that do not end well"
    )


def test_a_drain_at_once_keeps_the_last_copy_in_every_reachable_state() -> None:
    assert_explored(initial_state("drain m1", mode="AtOnce", min_available=None), concurrency=0)


def test_the_failure_and_recovery_of_a_cluster_keep_every_promise() -> None:
    assert_explored(initial_state("fail m1", "recover m1"), concurrency=0)


def test_a_cluster_that_leaves_the_fleet_keeps_its_replicas_until_they_run_elsewhere() -> None:
    assert_explored(initial_state("unjoin m1"), concurrency=0)


@pytest.mark.skipif(EFFORT == 1, reason="explored by make soak")
@pytest.mark.parametrize(
    "events",
    [
        ("rebalance", "fail m1", "recover m1"),
        ("rebalance", "unjoin m1"),
        ("unjoin m1", "fail m1"),
        ("drain m1", "fail m1", "recover m1"),
    ],
    ids=" and ".join,
)
def test_events_at_any_time_of_a_move_keep_every_promise(events: tuple[str, ...]) -> None:
    assert_explored(initial_state(*events), concurrency=0)


@pytest.mark.skipif(EFFORT == 1, reason="explored by make soak")
@pytest.mark.parametrize("concurrency", [1, 2])
def test_interleaved_writes_of_reconciles_keep_every_promise(concurrency: int) -> None:
    assert_explored(initial_state("rebalance"), concurrency)


# --- what the normal form of states relies on ---


@pytest.mark.parametrize("event", ["rebalance", "fail m1"])
def test_a_deadline_that_passes_only_adds_to_what_a_controller_may_do(event: str) -> None:
    """So it is enough to explore states in which all deadlines have passed (see `movement_normal_form.py`)."""
    normalizer = Normalizer()
    compared: set[int] = set()

    def compare(_: ModelState, step: Step) -> str:
        if id(step.to.objects) in compared:
            return ""
        compared.add(id(step.to.objects))
        before = step.to._replace(objects={key: with_fresh_times(thing) for key, thing in step.to.objects.items()})
        for name in CONTROLLERS:
            early, late = changes_by(before, name, normalizer), changes_by(step.to, name, normalizer)
            if early and early != late:
                return f"{name} writes something else before a deadline than after it"
        return ""

    explore(initial_state(event), compare, is_settled, concurrency=0, limit=LIMIT)
    assert len(compared) >= 20


def changes_by(model: ModelState, name: str, normalizer: Normalizer) -> list[list[object]]:
    """The objects after each write of a reconcile that changes something, in normal form."""
    states = [normalizer.normal(one).objects for one in (model, *states_after_writes(model, name))]
    return [list(new.values()) for old, new in pairwise(states) if new is not old]


def states_after_writes(model: ModelState, name: str) -> Iterator[ModelState]:
    reconcile, _ = compute_reconcile(model, name)
    while reconcile is not None:
        model, reconcile = send_next(model, reconcile)
        yield model


def with_fresh_times(thing: Any) -> Any:
    """The same object before its deadlines; only the pause after a reverted move stays as it is."""
    if isinstance(thing, ResourceBinding):
        holds = tuple(hold.but(since=JUST_NOW, until=NOON + timedelta(seconds=600)) for hold in thing.status.holds)
        tasks = tuple(
            task if task.creation_timestamp is None else task.but(creation_timestamp=JUST_NOW)
            for task in thing.spec.graceful_eviction_tasks
        )
        return thing.but(spec=thing.spec.but(graceful_eviction_tasks=tasks), status=thing.status.but(holds=holds))
    if isinstance(thing, DisruptionBudget):
        charges = tuple(entry.but(since=JUST_NOW) for entry in thing.status.in_flight)
        return thing.but(status=thing.status.but(in_flight=charges))
    if isinstance(thing, Move):
        is_charged = thing.status.started == EXPIRED
        return thing.but(status=thing.status.but(started=JUST_NOW if is_charged else JUST_NOW - timedelta(seconds=1)))
    return thing


# --- without a rule the exploration fails ---


def gate_without(**fields: Any) -> Callable[[Any], Any]:
    """A gate whose result lacks something."""

    def replace(apply_gate: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any) -> Any:
            result = apply_gate(*arguments)
            return result._replace(**fields) if isinstance(result, gate.GateResult) else result

        return changed

    return replace


def instead(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


TOO_FEW = "replicas serve; the budget requires"
NOT_CHARGED = "no budget is charged or no Move is in progress"
NOT_CONSERVED = "replicas are placed and"
LEFT_TOO_EARLY = "has left the fleet with replicas"
LAST_COPY = "the last ready replica is removed"
DEFECTS: dict[str, tuple[object, str, Callable[[Any], Any], str]] = {
    "no gate": (
        move_start,
        "apply_gate",
        gate_without(charged_budgets=(), log_entries=(), holds=(), replacement=None),
        TOO_FEW,
    ),
    "no hold": (move_start, "apply_gate", gate_without(holds=(), replacement=None), TOO_FEW),
    "no charge": (move_start, "apply_gate", gate_without(charged_budgets=()), NOT_CHARGED),
    "no Move": (move_start, "apply_gate", gate_without(log_entries=()), NOT_CHARGED),
    "no write of the hold before the placement": (
        move_start,
        "WriteSequence",
        instead(lambda steps: WriteSequence(steps[1:])),
        TOO_FEW,
    ),
    "holds that dispatch ignores": (
        dispatch,
        "targets_of",
        lambda real: lambda binding: real(binding.but(status=binding.status.but(holds=()))),
        TOO_FEW,
    ),
    "holds that end before the replacement is ready": (
        replacement_hold,
        "is_replacement_ready",
        instead(lambda *_: True),
        TOO_FEW,
    ),
    "a revert that keeps the new replicas": (
        state,
        "_placement_after_revert",
        lambda real: lambda binding, before: (*real(binding, before), *binding.spec.clusters[1:]),
        NOT_CONSERVED,
    ),
    "a revert that forgets the old replicas": (
        state,
        "_placement_after_revert",
        instead(lambda binding, _: binding.spec.clusters[1:]),
        NOT_CONSERVED,
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, change, expected = DEFECTS[defect]
    monkeypatch.setattr(module, name, change(getattr(module, name)))
    assert expected in violation_after("rebalance")


def violation_after(*events: str, concurrency: int = 0, **options: Any) -> str:
    with pytest.raises(Violation) as found:
        explore(initial_state(*events, **options), broken_promise, is_settled, concurrency=concurrency, limit=LIMIT)
    return str(found.value)


def test_a_drain_at_once_without_the_guard_of_the_last_copy_stops_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "removes_last_ready_copy", lambda *_: False)
    assert LAST_COPY in violation_after("drain m1", mode="AtOnce", min_available=None)


def test_a_cluster_that_leaves_before_it_is_empty_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_departure, "remaining_users", lambda *_: iter(()))
    assert LEFT_TOO_EARLY in violation_after("unjoin m1")


def test_an_eviction_that_ends_before_its_replacement_is_ready_stops_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graceful_eviction, "is_finished", lambda *_: True)
    monkeypatch.setattr(graceful_eviction, "is_cancelled", lambda *_: False)
    assert LAST_COPY in violation_after("fail m1", "recover m1")


def test_a_hold_that_nobody_removes_after_a_crash_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacement_hold, "ORPHANED_HOLD_TIMEOUT", timedelta(days=1))
    with pytest.raises(AssertionError, match="no way to a settled state"):
        assert_explored(initial_state("rebalance"), concurrency=0)


def test_a_move_that_the_log_has_cancelled_and_that_begins_again_unlogged_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def log_once(move: Move, view: View) -> Iterator[Effect]:
        if view.get(Move, move.namespace, move.name) is None:
            yield move

    monkeypatch.setattr(binding_moves, "log_start", log_once)
    assert NOT_CHARGED in violation_after("rebalance")


def test_a_move_that_begins_again_while_the_log_cancels_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers of which one writes nothing: only an exploration of two reconciles at once finds it."""
    log_start = binding_moves.log_start

    def log_if_over(move: Move, view: View) -> Iterator[Effect]:
        known = view.get(Move, move.namespace, move.name)
        if known is None or known.status.outcome:
            yield from log_start(move, view)

    monkeypatch.setattr(binding_moves, "log_start", log_if_over)
    assert NOT_CHARGED in violation_after("rebalance", concurrency=2)
