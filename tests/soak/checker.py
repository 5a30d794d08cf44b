"""Replays a recorded history and finds what must never happen, however many processes were killed meanwhile.

The checker knows nothing of the control plane's own accounts: readiness comes from the pods of the members, and the use
of budgets is counted again from the Moves.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from soak.history import BudgetFact, DesiredFact, Fact, FaultFact, GapFact, MoveFact, PodFact, WantedFact
from trimtab.api.duration import parse_duration
from trimtab.api.value import Raw

SKEW_SECONDS = 2.0
"""How much later a fact of one server may be received than a later fact of another server."""
FAULT_SECONDS = 120.0
"""How long after a disturbance a member may report its own pods as not ready."""
CLOCK_BACK = "clock back"
"""The disturbance after which timestamps do not tell the order of moves."""
PLANE = "plane"


def violations(history: Sequence[Fact]) -> list[str]:
    return [*removed_last_copies(history), *overspent_budgets(history)]


# The last ready copy


class _Availability:
    """The ready pods of every app, as the facts so far tell."""

    def __init__(self) -> None:
        self.ready: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        self.disturbed: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        """Pods that became not ready by a fault of the driver: the control plane may not know it yet."""
        self.faulted: dict[str, float] = {}

    def add(self, fact: PodFact) -> bool:
        """Apply the fact; returns whether it removes the last ready copy by deletion."""
        pods, disturbed, place = self.ready[fact.app], self.disturbed[fact.app], (fact.member, fact.pod)
        if fact.ready and not fact.deleting:
            pods.add(place)
            disturbed.discard(place)
            return False
        was_ready = place in pods
        pods.discard(place)
        if fact.deleting:
            disturbed.discard(place)
        elif was_ready and fact.at - self.faulted.get(fact.member, -FAULT_SECONDS) < FAULT_SECONDS:
            disturbed.add(place)
        return fact.deleting and was_ready and not pods and not disturbed


def removed_last_copies(history: Sequence[Fact]) -> Iterator[str]:
    """Deletions of the last ready copy of an app that its template still wants.

    A deletion that the member itself decided is not meant: then its object still asks for as many replicas as before.
    """
    availability = _Availability()
    wanted: dict[str, int | None] = {}
    for number, fact in enumerate(history):
        match fact:
            case FaultFact() | GapFact():
                name = fact.target if isinstance(fact, FaultFact) else fact.source
                availability.faulted[name] = fact.at
            case WantedFact():
                wanted[fact.app] = fact.replicas
            case PodFact():
                if not availability.add(fact) or not wanted.get(fact.app):
                    continue
                if _is_unknown(history, number) or not _lost_replicas(history, number):
                    continue
                if not _is_replaced_nearby(history, number):
                    yield (
                        f"{fact.at:.1f}: the last ready copy of {fact.app}, {fact.pod} in {fact.member}, was removed; "
                        f"{wanted[fact.app]} replicas are wanted"
                    )


def _near(history: Sequence[Fact], number: int, before: float, after: float) -> Iterator[Fact]:
    at = history[number].at
    return (fact for fact in history if at - before <= fact.at <= at + after)


def _is_unknown(history: Sequence[Fact], number: int) -> bool:
    """Whether a watch of a member had a gap, so that the order of events is not known, or the app was just deleted."""
    removed = history[number]
    assert isinstance(removed, PodFact)
    return any(
        isinstance(fact, GapFact) or (isinstance(fact, WantedFact) and fact.app == removed.app and not fact.replicas)
        for fact in _near(history, number, SKEW_SECONDS, SKEW_SECONDS)
    )


def _lost_replicas(history: Sequence[Fact], number: int) -> bool:
    """Whether the member's object asks for fewer replicas than at any time in the minute before."""
    removed = history[number]
    assert isinstance(removed, PodFact)
    before: int | None = None
    highest = 0
    for fact in history:
        if not isinstance(fact, DesiredFact) or (fact.member, fact.app) != (removed.member, removed.app):
            continue
        if fact.at > removed.at + SKEW_SECONDS:
            break
        if fact.at >= removed.at - 60:
            highest = max(highest, before or 0)
        before = fact.replicas
    return (before or 0) < highest


def _is_replaced_nearby(history: Sequence[Fact], number: int) -> bool:
    """Whether another copy became ready at about this time: the facts of two members have no exact order."""
    removed = history[number]
    assert isinstance(removed, PodFact)
    return any(
        isinstance(fact, PodFact) and fact.app == removed.app and fact.ready and not fact.deleting
        for fact in _near(history, number, 0, SKEW_SECONDS)
    )


# Budgets


def overspent_budgets(history: Sequence[Fact]) -> Iterator[str]:
    """Moves that a budget did not allow: too many at once, or too many in a period."""
    budgets: dict[str, Raw] = {}
    moves: dict[str, Raw] = {}
    for fact in history:
        if isinstance(fact, BudgetFact):
            budgets[fact.budget["metadata"]["name"]] = fact.budget["spec"]
        elif isinstance(fact, MoveFact):
            name = fact.move["metadata"]["name"]
            is_new = name not in moves
            moves[name] = fact.move
            if is_new:
                yield from _too_many_at_once(fact, budgets, moves.values())
    if not any(isinstance(f, FaultFact) and (f.target, f.what) == (PLANE, CLOCK_BACK) for f in history):
        for name, spec in sorted(budgets.items()):
            yield from _too_many_in_period(name, spec, [m for m in moves.values() if name in budgets_of(m)])


def _too_many_at_once(fact: MoveFact, budgets: dict[str, Raw], moves: Iterable[Raw]) -> Iterator[str]:
    for name in budgets_of(fact.move):
        limit = (budgets.get(name) or {}).get("maxConcurrent")
        going = [move["metadata"]["name"] for move in moves if name in budgets_of(move) and not outcome_of(move)]
        if limit is not None and len(going) > limit:
            yield f"{fact.at:.1f}: budget {name} allows {limit} moves at once, in progress are {', '.join(going)}"


def _too_many_in_period(name: str, spec: Raw, charged: Sequence[Raw]) -> Iterator[str]:
    rate = spec.get("rate")
    if rate is None:
        return
    period = parse_duration(rate["period"])
    starts = sorted(parse_time(text) for move in charged if (text := (move.get("status") or {}).get("started")))
    for start in starts:
        spent = sum(start <= other < start + period for other in starts)
        if spent > rate["disruptions"]:
            yield f"budget {name} allows {rate['disruptions']} moves in {period}; {spent} began from {start} on"


def budgets_of(move: Raw) -> list[str]:
    """The names of the budgets that the move is charged to."""
    return [entry["name"] for entry in move["spec"].get("budgets") or ()]


def outcome_of(move: Raw) -> str:
    return (move.get("status") or {}).get("outcome", "")


def parse_time(text: Any) -> datetime:
    return datetime.fromisoformat(text)
