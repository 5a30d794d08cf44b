"""The disruption gate: how much of a new placement the disruption budgets admit now.

Problem: a new decision may take replicas away from clusters where they serve. No cause may do that faster than the
disruption budgets of the workload allow, whatever caused the decision: a policy change, a taint, a rebalance, a better
score. So every change of `spec.clusters` passes through this module, and there is no second path around it.

How it works:
1. `transfers_between(before, after)` splits the difference of two placements into transfers: replicas that leave one
   cluster, and the clusters where their replacements start. The result is sorted by name, so the next reconcile
   computes the same transfers again. Gains that replace nothing are no transfer: scaling up disrupts nothing.
2. `budget_state(budget, availability, now)` is what one budget allows now. Its limits are replicas that may become
   unavailable, the rate, moves in flight, and time windows. All of them must allow a move.
3. `admit(transfers, budgets, now)` admits as much as every budget allows, and says why the rest must wait and, if time
   alone decides, until when. `apply_transfers` is the placement in which only the admitted transfers happen.
4. `charge_budget` is the budget after the admitted moves. The caller writes it before any of them begins.

Invariants:
- Charge first, then move. A crash in between wastes budget; the other order could exceed it.
- All budgets that cover a workload must agree; the refusal with the latest time is reported, because an earlier retry
  would fail again.
- A move that starts its replacement first takes nothing away until the replacement is ready. It needs no spare
  replica, but it is refused while replicas are missing, unless the budget allows a surge. `surge` bounds how many
  replicas run twice meanwhile.
- Something must always be able to move: a share that cannot be split is admitted whole as the first transfer with
  replacement first, and `surge_limit` is at least one. Otherwise a large share would wait for ever.
- Everything here is a pure function of budget, availability and time. The rate is exact over any period because the
  status stores the times of the recent disruptions, not a counter.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from trimtab.api.cron import next_time
from trimtab.api.duration import parse_duration
from trimtab.api.kinds.disruption import (
    BudgetWindow,
    DisruptionBudget,
    InFlightDisruption,
    RateStatus,
    RecentDisruption,
)
from trimtab.api.value import IntOrString
from trimtab.api.wording import plural, verb
from trimtab.decide.pods.budgets.budget import BudgetLimit, RateWindow, scaled_value

ReplicasByCluster = Mapping[str, int]
"""Replicas by cluster."""


class Transfer(NamedTuple):
    """Replicas that leave one cluster, and where their replacements start."""

    source: str
    replicas: int
    to: tuple[tuple[str, int], ...] = ()

    @property
    def replacements(self) -> int:
        return sum(n for _, n in self.to)


class Availability(NamedTuple):
    """The replicas that a budget covers at one time, over all clusters."""

    desired: int = 0
    available: int = 0


class BudgetState(NamedTuple):
    """What one budget allows now; None means no limit."""

    budget: str
    replicas: int | None = None
    """How many more replicas may become unavailable."""
    rate: int | None = None
    concurrent: int | None = None
    is_open: bool = True
    """Whether a window is open, or there are no windows."""
    missing: int = 0
    """How many replicas are missing to the required number."""
    surge: bool = False
    """A move that starts its replacement first may begin even when replicas are missing."""
    next_at: datetime | None = None
    """When time alone allows the next move; None when it is allowed now, or when time alone does not help."""
    next_after: datetime | None = None
    """The same after as many moves have begun as the rate allows."""

    @property
    def moves_allowed(self) -> int | None:
        """How many more moves may begin; None means no limit."""
        if not self.is_open:
            return 0
        return _min_limit(self.rate, self.concurrent)

    def disruptions_allowed(self, desired: int) -> int:
        """The number of disruptions allowed now, as one number for status and people."""
        found = _min_limit(self.moves_allowed, self.replicas)
        return desired if found is None else found

    def refusal(self, now: datetime, *, replacement_first: bool) -> "GateRefusal | None":
        """Why not even one move may begin."""
        if not self.is_open:
            return GateRefusal(
                "WindowClosed", f"budget {self.budget}: no window is open{_format_until(self.next_at)}", self.next_at
            )
        if self.rate == 0:
            return GateRefusal(
                "RateExhausted",
                f"budget {self.budget}: its rate is exhausted{_format_until(self.next_at)}",
                self.next_at,
            )
        if self.concurrent == 0:
            return GateRefusal("TooManyInFlight", f"budget {self.budget}: the maximum number of moves is in flight")
        if self.missing and not (replacement_first and self.surge):
            missing = f"{plural(self.missing, 'replica')} {verb(self.missing, 'is', 'are')} already missing"
            return GateRefusal("NotEnoughAvailable", f"budget {self.budget}: {missing}")
        if self.replicas == 0 and not replacement_first:
            # A move that starts its replacement first removes nothing before the replacement is ready.
            return GateRefusal("NotEnoughAvailable", f"budget {self.budget}: no replica may become unavailable now")
        return None


class GateRefusal(NamedTuple):
    """Why a move may not begin, and when it may, if time alone decides."""

    code: str
    message: str
    until: datetime | None = None


WAITING_FOR_EARLIER_MOVES = GateRefusal("WaitingForEarlierMoves", "the rest follows when these are ready")


class Admitted(NamedTuple):
    """The admitted transfers; the refusal concerns the rest and is None when all are admitted."""

    transfers: tuple[Transfer, ...]
    refusal: GateRefusal | None = None


def transfers_between(before: ReplicasByCluster, after: ReplicasByCluster) -> list[Transfer]:
    """What leaves each cluster, and what replaces it; sorted by name, so that the result is reproducible.

    A cluster without replicas counts as left when it is no longer selected; all new clusters replace it.
    """
    gains = {name: n - before.get(name, 0) for name, n in sorted(after.items()) if n > before.get(name, 0)}
    fresh = tuple((name, 0) for name in sorted(after) if name not in before)
    found = []
    for name, had in sorted(before.items()):
        lost = had - after.get(name, 0)
        if lost > 0:
            found.append(Transfer(name, lost, _allocate_gains(gains, lost)))
        elif name not in after:
            found.append(Transfer(name, 0, fresh))
    return found


def _allocate_gains(gains: dict[str, int], wanted: int) -> tuple[tuple[str, int], ...]:
    taken = []
    for name in list(gains):
        n = min(gains[name], wanted)
        if n > 0:
            taken.append((name, n))
            gains[name] -= n
            wanted -= n
    return tuple(taken)


def apply_transfers(
    before: ReplicasByCluster, after: ReplicasByCluster, admitted: Iterable[Transfer]
) -> dict[str, int]:
    """The placement after only these transfers: gains that replace nothing happen at once, the rest stays unchanged."""
    planned = transfers_between(before, after)
    reserved: dict[str, int] = {}
    for transfer in planned:
        for name, n in transfer.to:
            reserved[name] = reserved.get(name, 0) + n
    result = dict(before)
    for name, n in after.items():
        extra = n - before.get(name, 0) - reserved.get(name, 0)
        if extra > 0 or (n == 0 and name not in before and not planned):
            result[name] = before.get(name, 0) + extra
    for transfer in admitted:
        for name, n in transfer.to:
            result[name] = result.get(name, 0) + n
        result[transfer.source] -= transfer.replicas
        if result[transfer.source] == 0 and transfer.source not in after:
            del result[transfer.source]
    return result


def admit(
    wanted: Sequence[Transfer],
    budgets: Sequence[BudgetState],
    now: datetime,
    *,
    replacement_first: bool,
    surge: int | None = None,
    divisible: bool = True,
) -> Admitted:
    """Admit as much of the transfers as every budget allows, in order; `surge` limits the replicas that run twice."""
    refusals = [found for budget in budgets if (found := budget.refusal(now, replacement_first=replacement_first))]
    if refusals:
        return Admitted((), max(refusals, key=lambda refusal: (refusal.until is None, refusal.until or now)))
    moves = _min_limit(*(budget.moves_allowed for budget in budgets))
    limit = surge if replacement_first else _min_limit(surge, *(budget.replicas for budget in budgets))
    admitted: list[Transfer] = []
    for transfer in wanted:
        if moves is not None and len(admitted) >= moves:
            return Admitted(tuple(admitted), _refusal_of_tightest_budget(budgets))
        part = (
            transfer if limit is None else _cut_to_fit(transfer, limit, divisible=divisible and bool(transfer.replicas))
        )
        if part is None:
            # A share that cannot be split is admitted whole or not at all; the first one always, or nothing would move.
            if admitted or not replacement_first:
                return Admitted(tuple(admitted), _refusal_of_a_whole_share(transfer, budgets, is_first=not admitted))
            part = transfer
        admitted.append(part)
        if limit is not None:
            limit -= part.replicas
        if part.replicas < transfer.replicas:
            return Admitted(tuple(admitted), WAITING_FOR_EARLIER_MOVES)
    return Admitted(tuple(admitted))


def _refusal_of_a_whole_share(transfer: Transfer, budgets: Sequence[BudgetState], *, is_first: bool) -> GateRefusal:
    """Why a share that cannot be split waits: for the moves before it, or, as the first one, for more spare replicas."""
    bounded = [(budget.replicas, budget.budget) for budget in budgets if budget.replicas is not None]
    if not is_first or not bounded:
        return WAITING_FOR_EARLIER_MOVES
    spare, name = min(bounded)
    return GateRefusal(
        "NotEnoughAvailable",
        f"budget {name}: the {transfer.replicas} replicas in {transfer.source} leave together, "
        f"and no more than {spare} may become unavailable now",
    )


def _refusal_of_tightest_budget(budgets: Sequence[BudgetState]) -> GateRefusal:
    """Why no more than these are admitted: the budget that allows the fewest moves."""
    tightest = min(
        (budget for budget in budgets if budget.moves_allowed is not None), key=lambda budget: budget.moves_allowed or 0
    )
    until = tightest.next_after if tightest.moves_allowed == tightest.rate else None
    return GateRefusal("WaitingForEarlierMoves", f"budget {tightest.budget} allows no more at once", until)


def _cut_to_fit(transfer: Transfer, limit: int, *, divisible: bool) -> Transfer | None:
    if transfer.replicas <= limit:
        return transfer
    if not divisible or limit <= 0:
        return None
    return Transfer(transfer.source, limit, _allocate_gains(dict(transfer.to), limit))


def budget_state(budget: DisruptionBudget, availability: Availability, now: datetime) -> BudgetState:
    """What this budget allows now: availability, rate, moves in flight and windows must all allow a move."""
    spec, status = budget.spec, budget.status
    limit = BudgetLimit(spec.min_available, spec.max_unavailable)
    bounded = spec.min_available is not None or spec.max_unavailable is not None
    rate = rate_of(budget)
    is_open, _ = windows_at(spec.windows, now)
    spare = availability.available - limit.desired_healthy(availability.desired) if bounded else None
    return BudgetState(
        budget.name,
        replicas=None if spare is None else max(0, spare),
        rate=rate.remaining(now) if rate is not None else None,
        concurrent=None if spec.max_concurrent is None else max(0, spec.max_concurrent - len(status.in_flight)),
        is_open=is_open,
        missing=0 if spare is None else max(0, -spare),
        surge=spec.surge == "Allowed",
        next_at=_next_at(spec.windows, rate, now),
        next_after=_next_at(spec.windows, rate.without_remaining(now), now) if rate is not None else None,
    )


def _next_at(windows: Sequence[BudgetWindow], rate: RateWindow | None, now: datetime) -> datetime | None:
    """The first time at which the rate has capacity and a window is open; None when that is now, or never."""
    free = now if rate is None else rate.next_allowed_at(now)
    is_open, opens = windows_at(windows, free)
    at = free if is_open else opens
    return at if at is not None and at > now else None


def rate_of(budget: DisruptionBudget) -> RateWindow | None:
    asked = budget.spec.rate
    if asked is None:
        return None
    recent = budget.status.rate.recent if budget.status.rate is not None else ()
    times = tuple(sorted(entry.at for entry in recent if entry.at is not None))
    return RateWindow(asked.disruptions, parse_duration(asked.period), times)


def windows_at(windows: Sequence[BudgetWindow], now: datetime) -> tuple[bool, datetime | None]:
    """Whether a window is open, and when the next one opens; without windows it is always open."""
    if not windows:
        return True, None
    if any(_is_open(window, now) for window in windows):
        return True, None
    nexts = (next_time(window.schedule, window.time_zone, now) for window in windows)
    openings = [opening for opening in nexts if opening is not None]
    return False, min(openings, default=None)


def _is_open(window: BudgetWindow, now: datetime) -> bool:
    began = next_time(window.schedule, window.time_zone, now - parse_duration(window.duration))
    return began is not None and began <= now


def charge_budget(budget: DisruptionBudget, moves: Sequence[InFlightDisruption], now: datetime) -> DisruptionBudget:
    """The budget after these moves: written before any of them begins, so that a crash can only waste budget."""
    status = budget.status.but(in_flight=(*budget.status.in_flight, *moves))
    rate = rate_of(budget)
    if rate is not None:
        recent = budget.status.rate.recent if budget.status.rate is not None else ()
        at = rate.monotonic_now(now)
        counting = [entry for entry in recent if entry.at is not None and at - rate.period < entry.at]
        counting += [RecentDisruption(object=move.object, at=at, by=move.by, reason=move.reason) for move in moves]
        status = status.but(
            rate=RateStatus(
                in_window=len(counting), limit=rate.disruptions, recent=tuple(counting[-rate.disruptions :])
            )
        )
    return budget.but(status=status)


def surge_limit(limit: IntOrString, total: int) -> int:
    """How many replicas may run twice at once: at least one, or nothing would ever move."""
    return max(1, scaled_value(limit, total))


def disruptions_within(
    recent: Sequence[RecentDisruption], period: timedelta, now: datetime
) -> tuple[RecentDisruption, ...]:
    """The disruptions that still count."""
    return tuple(entry for entry in recent if entry.at is not None and now - period < entry.at)


def _min_limit(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _format_until(at: datetime | None) -> str:
    return f" until {at:%Y-%m-%d %H:%M:%SZ}" if at is not None else ""


def time_in_refusal(message: str) -> datetime | None:
    """The time in the message of a refusal until which it holds; None when time alone does not decide."""
    found = re.search(r" until (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)Z", message)
    return datetime.fromisoformat(f"{found[1]}+00:00") if found else None
