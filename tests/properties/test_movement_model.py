"""Every reachable state of a small fleet keeps the promises of a move (see `movement_model.py`).

`make test` explores whole reconciles with a crash after any of their writes. `make soak` also interleaves the writes of two
reconciles with each other and with everything that can happen in between, and lets a cluster fail and recover at any time.
"""

from collections import deque

import pytest

from properties.hypothesis_settings import EFFORT
from properties.movement_exploration import Exploration, Violation, explore
from properties.movement_model import CONTROLLERS, REPLICAS, ModelState, Step, initial_state, wanted_pods
from trimtab.api.kinds.disruption import Move
from trimtab.controllers.movement import binding_moves, gate, move_start
from trimtab.controllers.propagation import dispatch

LIMIT = 20_000 * EFFORT
UNFAIR = ("crash", "rebalance", "fail", "drain")
"""Steps that nobody has to take: the machine comes to rest without them."""


def broken_promise(before: ModelState, step: Step) -> str:
    """What a step breaks; empty if it keeps all promises."""
    return broken_by_any_step(step.to) or (broken_by_controller(before, step.to) if step.cause in CONTROLLERS else "")


def broken_by_any_step(model: ModelState) -> str:
    placed = sum(binding_moves.current_placement(model.binding).values())
    leaving = sum(task.replicas or 0 for task in model.binding.spec.graceful_eviction_tasks)
    # The task of a cluster that is down may end before the scheduler has run; `is_settled` requires all replicas again.
    if placed > REPLICAS or (placed + leaving < REPLICAS and not model.has_failed):
        return f"{placed} replicas are placed and {leaving} are leaving, of {REPLICAS}"
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
    logged = {move.spec.from_ for move in after.all(Move)}
    held_before = {hold.cluster for hold in before.binding.status.holds}
    for hold in after.binding.status.holds:
        if hold.cluster not in held_before and not (hold.cluster in charged and hold.cluster in logged):
            return f"replicas leave {hold.cluster}, but no budget is charged or no Move is written"
    return ""


def is_settled(model: ModelState) -> bool:
    """Nothing moves, everything that should run is ready, and no budget is charged."""
    binding = model.binding
    stamp, last = binding.spec.reschedule_triggered_at, binding.status.last_scheduled_time
    return (
        not model.running
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
    outcomes = frozenset[str]().union(*(facts.outcomes for facts in found.facts))
    assert {"", "Done", "Reverted"} <= outcomes, "the exploration must see moves that end well and moves that do not"


def test_a_drain_at_once_keeps_the_last_copy_in_every_reachable_state() -> None:
    assert_explored(initial_state("drain m1", mode="AtOnce", min_available=None), concurrency=0)


@pytest.mark.skipif(EFFORT == 1, reason="explored by make soak")
@pytest.mark.parametrize("concurrency", [0, 1])
def test_a_failure_at_any_time_keeps_every_promise(concurrency: int) -> None:
    assert_explored(initial_state("rebalance", "fail m1", "recover m1"), concurrency)


@pytest.mark.skipif(EFFORT == 1, reason="explored by make soak")
def test_interleaved_writes_of_two_reconciles_keep_every_promise() -> None:
    assert_explored(initial_state("rebalance"), concurrency=2)


# --- without a rule the exploration fails ---


def test_without_holds_in_dispatch_too_few_replicas_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    keeps = dispatch.targets_of
    monkeypatch.setattr(dispatch, "targets_of", lambda b: keeps(b.but(status=b.status.but(holds=()))))
    with pytest.raises(Violation, match="replicas serve; the budget requires"):
        explore(initial_state("rebalance"), broken_promise, is_settled, concurrency=0, limit=LIMIT)


def test_without_the_charge_before_the_move_a_move_begins_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    apply_gate = gate.apply_gate

    def begin_uncharged(*arguments: object) -> object:
        result = apply_gate(*arguments)  # type: ignore[arg-type]
        return result._replace(charged_budgets=()) if isinstance(result, gate.GateResult) else result

    monkeypatch.setattr(move_start, "apply_gate", begin_uncharged)
    with pytest.raises(Violation, match="no budget is charged"):
        explore(initial_state("rebalance"), broken_promise, is_settled, concurrency=0, limit=LIMIT)


def test_without_the_last_copy_guard_a_drain_at_once_stops_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "removes_last_ready_copy", lambda *_: False)
    with pytest.raises(Violation, match="the last ready replica is removed"):
        start = initial_state("drain m1", mode="AtOnce", min_available=None)
        explore(start, broken_promise, is_settled, concurrency=0, limit=LIMIT)
