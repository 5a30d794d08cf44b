"""Explores every state of the movement model: steps, equality of states, and the search."""

import hashlib
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from properties.movement_model import (
    CLUSTERS,
    CONTROLLERS,
    ModelState,
    Step,
    delete,
    environment_steps,
    report,
    run_alone,
    send_next,
    start_reconcile,
)
from trimtab.api.kind import to_wire
from trimtab.api.kinds.disruption import Move
from trimtab.api.kinds.rebalancer import WorkloadRebalancer
from trimtab.api.kinds.work import (
    Binding,
)
from trimtab.api.value import Object, Raw
from trimtab.controllers import well_known
from trimtab.controllers.movement import binding_moves

CARRIERS = ("dispatch", "aggregate")
DEADLINES: Mapping[str, tuple[int, ...]] = {
    "hold": (30,),
    "until": (0,),
    "charge": (5, 600, 1200),
    "started": (60, 3600),
    "stalled": (600,),
    "creationTimestamp": (600,),
    "timeAdded": (),
    "deletionTimestamp": (),
    "nextAllowedAt": (0,),
    "unused": (),
}
"""The ages in seconds at which controllers act, by field; between two of them a time is as good as another."""
ISO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
TIME = re.compile(r"@(\w+)=([^@]+)@")
NOISE = (
    "resourceVersion",
    "uid",
    "generation",
    "decision",
    "apiVersion",
    "kind",
    "lastScheduledTime",
    "rescheduleTriggeredAt",
    "finished",
    "message",
    well_known.REQUESTED_BY,
)
"""What no controller reads, or what `order_of_times` says of it."""
IGNORED_CONDITIONS = ("Scheduled", "FullyApplied")
GENERATIONS = ("schedulerObservedGeneration", binding_moves.GENERATION_ANNOTATION)


def successors(model: ModelState, *, concurrency: int) -> Iterator[Step]:
    """Every state that one step reaches.

    With concurrency 0 a reconcile is one step, up to any of its writes, and the controllers that only carry changes to
    members and back (dispatch, aggregate) follow at once. Otherwise this many reconciles are in progress at a time, and
    anything can happen between two writes.
    """
    return concurrent_steps(model, concurrency) if concurrency else whole_steps(model)


def whole_steps(model: ModelState) -> Iterator[Step]:
    for cause, happened in environment_steps(model):
        reported = report(happened, cause.removeprefix("ready ")) if cause.startswith("ready") else happened
        yield Step(cause, propagate(reported))
    for name in CONTROLLERS:
        reconcile = start_reconcile(model, name) if name not in CARRIERS else None
        after = model
        while reconcile is not None:
            after, reconcile = send_next(after, reconcile)
            yield Step(name, propagate(forget_finished(after)))


def propagate(model: ModelState) -> ModelState:
    for name in CARRIERS:
        model = run_alone(model, name)
    return model


def concurrent_steps(model: ModelState, concurrency: int) -> Iterator[Step]:
    yield from environment_steps(model)
    if model.running:
        yield Step("crash", model._replace(running=()))
    for position, reconcile in enumerate(model.running):
        others = model.running[:position] + model.running[position + 1 :]
        after, rest = send_next(model._replace(running=others), reconcile)
        running = tuple(sorted((*others, *([rest] if rest else [])), key=lambda one: one.controller))
        yield Step(reconcile.controller, forget_finished(after)._replace(running=running))
    busy = {reconcile.controller for reconcile in model.running}
    if len(busy) >= concurrency:
        return
    for name in CONTROLLERS:
        started = start_reconcile(model, name) if name not in busy else None
        if started is not None:
            running = tuple(sorted((*model.running, started), key=lambda one: one.controller))
            yield Step("start", model._replace(running=running))


def forget_finished(model: ModelState) -> ModelState:
    """The log keeps a bounded number of finished moves; one that no budget counts is read by nobody here."""
    counted = {(entry.from_, entry.since) for entry in model.budget.status.in_flight}
    gone = [
        key
        for key, move in model.objects.items()
        if isinstance(move, Move) and move.status.outcome and (move.spec.from_, move.status.started) not in counted
    ]
    for key in gone:
        model = delete(model, key)
    return model


def canonical(model: ModelState) -> str:
    """A text that is equal for states that differ only in absolute times, generations and versions."""
    generation = model.binding.metadata.generation
    parts = [text_of(thing, generation) for _, thing in sorted(model.objects.items())]
    for reconcile in model.running:
        parts.append(reconcile.controller)
        for write in reconcile.writes:
            same = write.key in reconcile.begun or model.versions.get(write.key, 0) == write.version
            patch = "" if write.patch is None else without_noise(write.patch, generation)
            parts.append(f"{write.key[0]}{write.key[1]}{same}{patch}")
    text = f"{model.pods} {model.events} {model.has_failed} {order_of_times(model)} {'|'.join(parts)}"
    return TIME.sub(lambda found: f"{age_in(found[1], model.now - datetime.fromisoformat(found[2]))}", text)


def order_of_times(model: ModelState) -> tuple[object, ...]:
    """What the controllers compare with each other rather than with the clock."""
    binding = model.binding
    stamp, last = binding.spec.reschedule_triggered_at, binding.status.last_scheduled_time
    stalled = binding_moves.stalled_condition_of(binding)
    stalled_at = stalled.last_transition_time if stalled is not None else None
    started = {(move.spec.from_, move.status.started) for move in model.all(Move)}
    return (
        stamp is not None and last is not None and stamp > last,
        stamp is not None and stalled_at is not None and stamp > stalled_at,
        binding_moves.reschedule_request_of(binding),
        tuple((entry.from_, entry.since) in started for entry in model.budget.status.in_flight),
    )


def age_in(field: str, age: timedelta) -> int:
    """The number of deadlines of this field that have passed."""
    return sum(age.total_seconds() >= deadline for deadline in DEADLINES[field])


@lru_cache(maxsize=200_000)
def _text(encoded: bytes, generation: int) -> str:
    return without_noise(msgspec.json.decode(encoded), generation)


def text_of(thing: Object, generation: int) -> str:
    if isinstance(thing, WorkloadRebalancer):
        return ""
    return _text(msgspec.json.encode(to_wire(thing)), generation if isinstance(thing, Binding | Move) else 0)


def without_noise(raw: Raw, generation: int) -> str:
    """The object with only what controllers read, generations relative to the binding, and times with their field."""

    def clean(name: str, value: Any, siblings: Raw) -> Any:
        if isinstance(value, dict):
            return {key: clean(key, inner, value) for key, inner in value.items() if key not in NOISE}
        if isinstance(value, list):
            return [clean(name, inner, siblings) for inner in value]
        if name in GENERATIONS:
            return max(-1, int(value) - generation)
        if isinstance(value, str) and ISO_TIME.fullmatch(value):
            return f"@{field_of_time(name, siblings)}={value}@"
        return value

    cleaned = clean("", raw, raw)
    (cleaned.get("metadata") or {}).pop("name", None)
    if "inFlight" in (status := cleaned.get("status") or {}) or "effective" in status:
        cleaned["status"] = status.get("inFlight")  # the gate computes the rest again
    elif status.get("conditions"):
        status["conditions"] = [one for one in status["conditions"] if is_relevant(one)]
    return msgspec.json.encode(cleaned, order="deterministic").decode()


def is_relevant(condition: Raw) -> bool:
    if condition["type"] == "Stalled":
        return bool(condition["status"] == "True")
    return condition["type"] not in IGNORED_CONDITIONS


def field_of_time(name: str, siblings: Raw) -> str:
    if name == "lastTransitionTime":
        return "stalled" if siblings.get("type") == "Stalled" else "unused"
    if name == "since":
        return "hold" if "until" in siblings else "charge"
    return name


class Facts(NamedTuple):
    """What is kept of a state after its steps are known; the state itself is not."""

    is_settled: bool
    outcomes: frozenset[str]
    """The outcomes of its moves; empty for a move in progress."""
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

    A state is known by a digest of its canonical text, and forgotten when its steps are known.
    """
    found = Exploration([], [], [])
    found.add(facts_of(start, is_settled), 0, "")
    known = {digest_of(start): 0}
    waiting = deque([start])
    index = -1
    while waiting:
        model, index = waiting.popleft(), index + 1
        for step in successors(model, concurrency=concurrency):
            if problem := check(model, step):
                raise Violation(f"{problem} after {' > '.join([*found.path_to(index), step.cause])}")
            key = digest_of(step.to)
            target = known.get(key)
            if target is None:
                target = known[key] = len(known)
                if target >= limit:
                    raise Violation(f"more than {limit} states: the machine does not come to an end")
                found.add(facts_of(step.to, is_settled), index, sys.intern(step.cause))
                waiting.append(step.to)
            found.steps[index].append((sys.intern(step.cause), target))
    return found


def digest_of(model: ModelState) -> bytes:
    return hashlib.blake2b(canonical(model).encode(), digest_size=16).digest()


def facts_of(model: ModelState, is_settled: Callable[[ModelState], bool]) -> Facts:
    outcomes = frozenset(move.status.outcome for move in model.all(Move))
    return Facts(is_settled(model), outcomes, tuple(model.pods[name] for name in CLUSTERS))
