"""Explores every state of the movement model: steps, equality of states, and the search."""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from properties.movement_model import (
    CLUSTERS,
    CONTROLLERS,
    ModelState,
    Reconcile,
    Step,
    environment_steps,
    report,
    send_next,
    without_conflicts,
)
from properties.movement_normal_form import Normalizer
from trimtab.controllers.movement import binding_moves

CARRIERS = ("dispatch", "aggregate")


def whole_steps(model: ModelState, normalizer: Normalizer) -> Iterator[Step]:
    """Every state that one whole reconcile reaches, up to any of its writes, or one event.

    The controllers that only carry changes to members and back (dispatch, aggregate) follow at once.
    """
    for cause, happened in environment_steps(model):
        reported = report(happened, cause.removeprefix("ready ")) if cause.startswith("ready") else happened
        yield Step(cause, propagate(reported, normalizer))
    for name in CONTROLLERS:
        reconcile = normalizer.start_reconcile(model, name) if name not in CARRIERS else None
        after = model
        while reconcile is not None:
            after, reconcile = send_next(after, reconcile)
            yield Step(name, propagate(after, normalizer))


def propagate(model: ModelState, normalizer: Normalizer) -> ModelState:
    model = normalizer.normal(model)
    for name in CARRIERS:
        reconcile = normalizer.start_reconcile(model, name)
        while reconcile is not None:
            model, reconcile = send_next(model, reconcile)
        model = normalizer.normal(model)
    return model


def concurrent_steps(model: ModelState, concurrency: int, normalizer: Normalizer) -> Iterator[Step]:
    """Every state that one write, one event or the start of a reconcile reaches, with this many in progress at a time."""
    for cause, happened in environment_steps(model):
        yield Step(cause, normalizer.normal(without_conflicts(model, happened)))
    if model.running:
        yield Step("crash", normalizer.normal(model._replace(running=())))
    for position, reconcile in enumerate(model.running):
        others = model.running[:position] + model.running[position + 1 :]
        after, rest = send_next(model._replace(running=others), reconcile)
        after = without_conflicts(model, after)
        yield Step(reconcile.controller, normalizer.normal(with_running(after, rest)))
    busy = {reconcile.controller for reconcile in model.running}
    if len(busy) >= concurrency:
        return
    for name in CONTROLLERS:
        started = normalizer.start_reconcile(model, name) if name not in busy else None
        if started is not None:
            yield Step("start", normalizer.normal(with_running(model, started)))


def with_running(model: ModelState, reconcile: Reconcile | None) -> ModelState:
    if reconcile is None:
        return model
    return model._replace(running=tuple(sorted((*model.running, reconcile))))


class Facts(NamedTuple):
    """What is kept of a state after its steps are known; the state itself is not."""

    is_settled: bool
    stalled: str
    """Why its moves do not go on; empty if they do."""
    ready: tuple[int, ...]
    """Ready pods in each member."""


class Exploration(NamedTuple):
    """Facts about every reachable state, by number, and the steps between them."""

    facts: list[Facts]
    steps: list[list[tuple[str, int]]]
    parents: list[tuple[int, str]]

    def path_to(self, index: int) -> list[str]:
        """The causes of the steps that lead to this state, for messages."""
        path: list[str] = []
        while index:
            index, cause = self.parents[index]
            path.append(cause)
        return path[::-1]

    def add(self, facts: Facts, parent: int, cause: str) -> None:
        self.facts.append(facts)
        self.steps.append([])
        self.parents.append((parent, cause))


class Violation(AssertionError):
    """A rule does not hold; the message has the steps that lead there."""


def explore(
    start: ModelState,
    check: Callable[[ModelState, Step], str],
    is_settled: Callable[[ModelState], bool],
    *,
    concurrency: int,
    limit: int,
) -> Exploration:
    """Every state reachable from `start`; `check` returns what is wrong with a step, or an empty text.

    With concurrency 0 a reconcile is one step, up to any of its writes. Otherwise this many reconciles are in progress at a
    time, and anything can happen between two writes. A state is forgotten when its steps are known.
    """
    normalizer = Normalizer()
    start = normalizer.normal(start)
    found = Exploration([], [], [])
    found.add(facts_of(start, is_settled), 0, "")
    known = {normalizer.key(start): 0}
    waiting = deque([start])
    index = -1
    while waiting:
        model, index = waiting.popleft(), index + 1
        steps = concurrent_steps(model, concurrency, normalizer) if concurrency else whole_steps(model, normalizer)
        for step in steps:
            if problem := check(model, step):
                raise Violation(f"{problem} after {' > '.join([*found.path_to(index), step.cause])}")
            key = normalizer.key(step.to)
            target = known.get(key)
            if target is None:
                target = known[key] = len(known)
                if target >= limit:
                    raise Violation(f"more than {limit} states: the machine does not come to an end")
                found.add(facts_of(step.to, is_settled), index, sys.intern(step.cause))
                waiting.append(step.to)
            found.steps[index].append((sys.intern(step.cause), target))
    return found


def facts_of(model: ModelState, is_settled: Callable[[ModelState], bool]) -> Facts:
    stalled = binding_moves.stalled_condition_of(model.binding)
    return Facts(
        is_settled(model), stalled.reason if stalled is not None else "", tuple(model.pods[name] for name in CLUSTERS)
    )
