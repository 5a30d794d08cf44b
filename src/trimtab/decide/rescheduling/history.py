"""The history of the rescheduler: its moves, their outcomes, and which owners are in backoff."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from trimtab.api.value import Value

FIRST_BACKOFF, MAX_BACKOFF = timedelta(minutes=10), timedelta(hours=24)
MAX_CONSECUTIVE_WASTED = 3
"""After so many consecutive wasted moves the owner is frozen and an event is recorded."""
PENDING_TIMEOUT = timedelta(minutes=2)
HISTORY_TTL = timedelta(hours=24)
REVERSAL_WINDOW = timedelta(hours=1)
SCALING_COOLDOWN = timedelta(minutes=5)
MAX_RECORDED_MOVES = 500
DONE, LANDED_BACK, PENDING = "Done", "ReturnedToSameNode", "Pending"


class MoveRecord(Value):
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
    def is_wasted(self) -> bool:
        return self.outcome in (LANDED_BACK, PENDING)


class CandidateStreak(Value):
    """A move that was proposed in this number of consecutive rounds."""

    pod: str = ""
    objective: str = ""
    rounds: int = 0


class OwnerScale(Value):
    """The number of replicas an owner wanted when last observed, and since when."""

    owner: str = ""
    replicas: int = 0
    since: datetime | None = None


class NodePressure(Value):
    """A node under CPU pressure."""

    node: str = ""
    since: datetime | None = None
    told: bool = False
    """Reported by a condition of the node; else inferred from usage."""


class RestartRecord(Value):
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


class ChainStep(Value):
    """One move of a chain."""

    pod: str = ""
    name: str = ""
    source: str = ""
    expected: str = ""


class MoveChain(Value):
    """Moves that depend on each other, made one at a time in this order; those before `made` are done."""

    objective: str = ""
    goal: str = ""
    until: str = ""
    """The uid of the pod that the chain makes room for."""
    steps: tuple[ChainStep, ...] = ()
    made: int = 0
    expires: datetime | None = None

    @property
    def name(self) -> str:
        return f"{self.objective}-{self.steps[0].pod}"


class ReschedulingHistory(Value):
    moves: tuple[MoveRecord, ...] = ()
    chains: tuple[MoveChain, ...] = ()
    streaks: tuple[CandidateStreak, ...] = ()
    scales: tuple[OwnerScale, ...] = ()
    pressures: tuple[NodePressure, ...] = ()
    falls: tuple[RestartRecord, ...] = ()

    def moves_of(self, owner: str) -> list[MoveRecord]:
        return [move for move in self.moves if move.owner == owner]

    def backoff_until(self, owner: str) -> datetime | None:
        """Each consecutive wasted move doubles the time until the next move."""
        row = self.consecutive_wasted_moves(owner)
        last = next((move.at for move in reversed(self.moves_of(owner)) if move.outcome), None)
        if not row or last is None:
            return None
        pause: timedelta = min(FIRST_BACKOFF * 2 ** (row - 1), MAX_BACKOFF)
        return last + pause

    def consecutive_wasted_moves(self, owner: str) -> int:
        row = 0
        for move in reversed([move for move in self.moves_of(owner) if move.outcome]):
            if not move.is_wasted:
                break
            row += 1
        return row

    def is_frozen(self, owner: str) -> bool:
        return self.consecutive_wasted_moves(owner) >= MAX_CONSECUTIVE_WASTED

    @property
    def frozen_owners(self) -> list[str]:
        """The owners that are no longer moved, by readable name where it is known."""
        return sorted(
            {move.owner: move.whose or move.owner for move in self.moves if self.is_frozen(move.owner)}.values()
        )

    def moves_in_flight(self, owner: str) -> int:
        return sum(not move.outcome for move in self.moves_of(owner))

    def has_reverse_move(self, owner: str, source: str, target: str, now: datetime) -> bool:
        """Whether a pod of this owner was recently moved from `target` to `source`."""
        return any(
            move.source == target
            and source in (move.target, move.expected)
            and now - (move.at or now) < REVERSAL_WINDOW
            for move in self.moves_of(owner)
        )

    def recent_moves_of(self, owner: str, now: datetime) -> int:
        return sum(now - (move.at or now) < REVERSAL_WINDOW for move in self.moves_of(owner))

    def recent_moves_of_service(self, service: str, now: datetime) -> int:
        """How often pods of a service were moved recently, whatever their owner."""
        if not service:
            return 0
        return sum(move.service == service and now - (move.at or now) < REVERSAL_WINDOW for move in self.moves)

    def without_move(self, pod: str) -> "ReschedulingHistory":
        """The history without the move of this pod, which was not evicted, and without the chain it was a step of."""
        chains = tuple(one for one in self.chains if one.steps[one.made - 1].pod != pod)
        return self.but(moves=tuple(one for one in self.moves if one.pod != pod or one.outcome), chains=chains)

    def persistent_part(self, now: datetime) -> "ReschedulingHistory":
        """The part that must survive a restart; the rest is observed again."""
        fresh = tuple(one for one in self.scales if one.since is not None and now - one.since < SCALING_COOLDOWN)
        return ReschedulingHistory(moves=self.moves, chains=self.chains, scales=fresh)

    def rounds_of(self, pod: str, objective: str) -> int:
        return next((one.rounds for one in self.streaks if (one.pod, one.objective) == (pod, objective)), 0)

    def last_scaled_at(self, owner: str) -> datetime | None:
        return next((one.since for one in self.scales if one.owner == owner), None)

    def pressure_since(self, node: str) -> datetime | None:
        return next((one.since for one in self.pressures if one.node == node), None)

    def with_moves(self, moves: Iterable[MoveRecord], now: datetime) -> "ReschedulingHistory":
        kept = tuple(move for move in (*self.moves, *moves) if now - (move.at or now) < HISTORY_TTL)
        return self.but(moves=kept[-MAX_RECORDED_MOVES:])
