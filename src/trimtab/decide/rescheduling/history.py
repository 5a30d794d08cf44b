"""The history of the rescheduler: its moves, their outcomes, and which owners are in backoff."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from trimtab.api.value import Value

FIRST_BACKOFF, LONGEST_BACKOFF = timedelta(minutes=10), timedelta(hours=24)
WASTED_IN_A_ROW = 3
"""After so many consecutive wasted moves the owner is frozen and an event is recorded."""
PENDING_TOO_LONG = timedelta(minutes=2)
REMEMBERED = timedelta(hours=24)
SAME_WAY_BACK = timedelta(hours=1)
SETTLES_AFTER_SCALING = timedelta(minutes=5)
MOST = 500
DONE, BACK, PENDING = "Done", "LandedBack", "Pending"


class Moved(Value):
    """One eviction by the rescheduler."""

    owner: str = ""
    whose: str = ""
    """The readable name of the owner."""
    service: str = ""
    pod: str = ""
    name: str = ""
    """Namespace and name of the pod."""
    source: str = ""
    expected: str = ""
    objective: str = ""
    gain: float = 0.0
    at: datetime | None = None
    outcome: str = ""
    """Empty until it is known."""
    target: str = ""
    free: bool = False
    """No running pod was disrupted."""

    @property
    def wasted(self) -> bool:
        return self.outcome in (BACK, PENDING)


class Streak(Value):
    """A move that was proposed in this number of consecutive rounds."""

    pod: str = ""
    objective: str = ""
    rounds: int = 0


class Scale(Value):
    """The number of replicas an owner wanted when last observed, and since when."""

    owner: str = ""
    replicas: int = 0
    since: datetime | None = None


class Pressure(Value):
    """A node under CPU pressure."""

    node: str = ""
    since: datetime | None = None
    told: bool = False
    """Reported by a condition of the node; else inferred from usage."""


class Fall(Value):
    """Restarts of a pod's containers, and when they were observed."""

    pod: str = ""
    owner: str = ""
    node: str = ""
    times: int = 0
    killed: bool = False
    """Because of memory (OOMKilled)."""
    at: datetime | None = None
    restarts: int = 0
    """The total restart count of the pod when they were observed."""


class Step(Value):
    """One move of a chain."""

    pod: str = ""
    name: str = ""
    source: str = ""
    expected: str = ""


class Chain(Value):
    """Moves that depend on each other, made one at a time in this order; those before `made` are done."""

    objective: str = ""
    goal: str = ""
    until: str = ""
    """The uid of the pod that the chain makes room for."""
    steps: tuple[Step, ...] = ()
    made: int = 0
    expires: datetime | None = None

    @property
    def name(self) -> str:
        return f"{self.objective}-{self.steps[0].pod}"


class History(Value):
    moves: tuple[Moved, ...] = ()
    chains: tuple[Chain, ...] = ()
    streaks: tuple[Streak, ...] = ()
    scales: tuple[Scale, ...] = ()
    pressures: tuple[Pressure, ...] = ()
    falls: tuple[Fall, ...] = ()

    def of(self, owner: str) -> list[Moved]:
        return [move for move in self.moves if move.owner == owner]

    def cooling_until(self, owner: str) -> datetime | None:
        """Each consecutive wasted move doubles the time until the next move."""
        row = self.wasted_in_a_row(owner)
        last = next((move.at for move in reversed(self.of(owner)) if move.outcome), None)
        if not row or last is None:
            return None
        pause: timedelta = min(FIRST_BACKOFF * 2 ** (row - 1), LONGEST_BACKOFF)
        return last + pause

    def wasted_in_a_row(self, owner: str) -> int:
        row = 0
        for move in reversed([move for move in self.of(owner) if move.outcome]):
            if not move.wasted:
                break
            row += 1
        return row

    def frozen(self, owner: str) -> bool:
        return self.wasted_in_a_row(owner) >= WASTED_IN_A_ROW

    @property
    def frozen_owners(self) -> list[str]:
        """The owners that are no longer moved, by readable name where it is known."""
        return sorted({move.owner: move.whose or move.owner for move in self.moves if self.frozen(move.owner)}.values())

    def on_their_way(self, owner: str) -> int:
        return sum(not move.outcome for move in self.of(owner))

    def went_the_other_way(self, owner: str, source: str, target: str, now: datetime) -> bool:
        """Whether a pod of this owner was recently moved from `target` to `source`."""
        return any(
            move.source == target and source in (move.target, move.expected) and now - (move.at or now) < SAME_WAY_BACK
            for move in self.of(owner)
        )

    def lately(self, owner: str, now: datetime) -> int:
        return sum(now - (move.at or now) < SAME_WAY_BACK for move in self.of(owner))

    def lately_of(self, service: str, now: datetime) -> int:
        """How often pods of a service were moved recently, whatever their owner."""
        if not service:
            return 0
        return sum(move.service == service and now - (move.at or now) < SAME_WAY_BACK for move in self.moves)

    def undone(self, pod: str) -> "History":
        """The history without the move of this pod, which was not evicted, and without the chain it was a step of."""
        chains = tuple(one for one in self.chains if one.steps[one.made - 1].pod != pod)
        return self.but(moves=tuple(one for one in self.moves if one.pod != pod or one.outcome), chains=chains)

    def lasting(self, now: datetime) -> "History":
        """The part that must survive a restart; the rest is observed again."""
        fresh = tuple(one for one in self.scales if one.since is not None and now - one.since < SETTLES_AFTER_SCALING)
        return History(moves=self.moves, chains=self.chains, scales=fresh)

    def rounds(self, pod: str, objective: str) -> int:
        return next((one.rounds for one in self.streaks if (one.pod, one.objective) == (pod, objective)), 0)

    def scaled_since(self, owner: str) -> datetime | None:
        return next((one.since for one in self.scales if one.owner == owner), None)

    def pressed_since(self, node: str) -> datetime | None:
        return next((one.since for one in self.pressures if one.node == node), None)

    def with_moves(self, moves: Iterable[Moved], now: datetime) -> "History":
        kept = tuple(move for move in (*self.moves, *moves) if now - (move.at or now) < REMEMBERED)
        return self.but(moves=kept[-MOST:])
