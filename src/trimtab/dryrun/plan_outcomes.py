"""What happens to each decided workload: its row in the plan, its moves, and the budgets that they are charged to."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from trimtab.api.kinds.cluster import Cluster
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.work import Binding, TargetCluster
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.approval import APPROVAL_REQUIRED
from trimtab.controllers.movement.freeze import current_freeze
from trimtab.controllers.movement.gate import AT_ONCE, VOLUNTARY_CAUSES, GateResult, apply_gate, mode_of, options_for
from trimtab.controllers.movement.move_reasons import mode_of_eviction, reason_of_taints
from trimtab.controllers.movement.taint_eviction import (
    eviction_rate,
    no_execute_taints,
)
from trimtab.controllers.propagation.scheduling.schedule import (
    CAUSES_THAT_KEEP_PLACEMENT,
)
from trimtab.decide.gate import transfers_between
from trimtab.decide.karmada import BindingDecision
from trimtab.decide.pipeline import QUOTA_EXCEEDED
from trimtab.dryrun.plan_cases import Case, Situation, evacuation_delay
from trimtab.dryrun.plan_result import (
    CREATE,
    LATER,
    MOVE,
    NEVER,
    NOW,
    REFUSED,
    SCALE,
    STARTS,
    STEPS,
    UNCHANGED,
    WHEN_APPROVED,
    PlannedMove,
    PlannedRefusal,
    PlannedWorkload,
)
from trimtab.dryrun.static_view import StaticView

LASTING_REFUSALS = ("NotEnoughAvailable", "LastCopy")
"""Refusals of the gate that waiting alone does not remove."""


class Outcome(NamedTuple):
    """One decided workload: its row, its moves, and what costs are computed from."""

    case: Case
    decision: BindingDecision
    row: PlannedWorkload
    moves: tuple[PlannedMove, ...] = ()
    charged: tuple[DisruptionBudget, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    begun: Binding | None = None
    """The binding with the holds of the moves that begin now, which later decisions see."""


def outcomes_of(decided: Sequence[tuple[Case, BindingDecision]], situation: Situation) -> Iterator[Outcome]:
    """Pass the decisions through the gate in the order of the scheduler: by priority, then by name."""
    view = situation.view
    evictions = 0
    rate = eviction_rate(view)
    for case, decision in sorted(decided, key=lambda entry: -entry[1].request.priority):
        if case.evicted:
            outcome = outcome_of_eviction(case, decision, situation, evictions / rate if rate > 0 else 0.0)
            evictions += len(case.evicted)
        else:
            outcome = outcome_of_decision(case, decision, situation, view)
        if outcome.charged:
            view = view.with_replaced((*outcome.charged, *([outcome.begun] if outcome.begun is not None else ())))
        yield outcome


def outcome_of_eviction(case: Case, decision: BindingDecision, situation: Situation, delay: float) -> Outcome:
    """Failover is involuntary: it needs no consent of a budget, only its turn in the eviction rate."""
    if not decision.ok:
        return Outcome(case, decision, failed_row(case, decision, situation))
    seconds = case.evict_after + delay
    if any(name in situation.lost for name in case.evicted):
        seconds += evacuation_delay(situation.view) or 0.0
    starts_at = situation.view.now + timedelta(seconds=seconds)
    task = next((t for t in case.binding.spec.graceful_eviction_tasks if t.from_cluster in case.evicted), None)
    mode = mode_of_eviction(task) if task is not None else AT_ONCE
    lost = sum(case.before.get(name, 0) or 1 for name in case.evicted if name in situation.lost)
    row = PlannedWorkload(
        workload=case.name,
        action=MOVE,
        cause="ClusterFailover",
        before=binding_moves.targets_of(case.before),
        after=decision.targets,
        start=LATER if seconds else NOW,
        starts_at=starts_at,
        mode=mode,
        note=case.note,
        lost_replicas=lost,
    )
    if (frozen := current_freeze(situation.view)) is not None:
        refusal = PlannedRefusal(code=frozen.code, message=frozen.message)
        row = row.but(start=LATER, starts_at=None, refusal=refusal)
    return Outcome(case, decision, row, tuple(moves_of(case, decision, row, situation)))


def failed_row(case: Case, decision: BindingDecision, situation: Situation) -> PlannedWorkload:
    before = binding_moves.targets_of(case.before)
    message = decision.condition[2]
    exceeds_quota = decision.failure is not None and decision.failure.kind == QUOTA_EXCEEDED
    code = QUOTA_EXCEEDED if exceeds_quota else "NoFeasibleCluster"
    if case.intent.cause in CAUSES_THAT_KEEP_PLACEMENT:
        message = f"cannot continue {case.intent.cause}: {message}"
    return PlannedWorkload(
        workload=case.name,
        action=REFUSED,
        cause=case.intent.cause,
        before=before,
        after=() if decision.should_clear else before,
        start=NEVER,
        note=message,
        refusal=PlannedRefusal(code=code, message=message, is_violation=True),
        lost_replicas=sum(n or 1 for name, n in case.before.items() if name in situation.lost),
    )


def outcome_of_decision(case: Case, decision: BindingDecision, situation: Situation, view: StaticView) -> Outcome:
    """What the gate lets begin of the decision; `view` shows what earlier workloads of the plan have begun."""
    if not decision.ok:
        return Outcome(case, decision, failed_row(case, decision, situation))
    after = dict(decision.clusters)
    action = action_of(case, after)
    row = PlannedWorkload(
        workload=case.name,
        action=action,
        cause=case.intent.cause if action != CREATE else "",
        before=binding_moves.targets_of(case.before),
        after=decision.targets,
        note=case.note or ("the decision would be the same" if action == UNCHANGED else ""),
    )
    planned = transfers_between(case.before, after)
    frozen = current_freeze(view) is not None and case.intent.cause != "Scale"
    if not planned or not (view.profile.replacement_first or frozen):
        return Outcome(case, decision, row, tuple(moves_of(case, decision, row, situation)))
    cause = case.intent.cause
    options = options_for(case.binding, view)
    begun = apply_gate(case.binding, decision, cause, options, view, set())
    budgets = tuple(binding_moves.budgets_of(case.binding, view, cause)) if cause in VOLUNTARY_CAUSES else ()
    if not isinstance(begun, GateResult):
        return Outcome(case, decision, row, budgets=budgets)
    mode = mode_of(case.binding, planned, cause, options, view, budgeted=bool(budgets))
    alone = (
        begun if view is situation.view else apply_gate(case.binding, decision, cause, options, situation.view, set())
    )
    row = with_gate_result(
        row.but(mode=mode), case, begun, lasts=isinstance(alone, GateResult) and is_lasting(case, alone)
    )
    moves = tuple(moves_of(case, decision, row, situation))
    held = state.begin(case.binding, begun.holds, begun.replacement)
    moving = state.place(held, begun.clusters) if begun.charged_budgets else None
    return Outcome(case, decision, row, moves, begun.charged_budgets, budgets, moving)


def action_of(case: Case, after: Mapping[str, int]) -> str:
    if case.is_new or not case.before:
        return CREATE
    if dict(case.before) == after:
        return UNCHANGED
    return SCALE if sum(case.before.values()) != sum(after.values()) and case.intent.cause == "Scale" else MOVE


def has_started(case: Case, begun: GateResult) -> bool:
    return begun.clusters != case.binding.spec.clusters or bool(begun.holds)


def is_lasting(case: Case, begun: GateResult) -> bool:
    """Whether nothing begins, and waiting alone does not help."""
    refusal = begun.refusal
    return (
        refusal is not None
        and refusal.until is None
        and refusal.code in LASTING_REFUSALS
        and not has_started(case, begun)
    )


def with_gate_result(row: PlannedWorkload, case: Case, begun: GateResult, *, lasts: bool) -> PlannedWorkload:
    """The row with when it starts: at once, in steps, at a time, or not before something else changes.

    `lasts`: the gate refuses it for good even without the other moves of the plan, which end by themselves.
    """
    refusal = begun.refusal
    if refusal is None:
        return row
    started = has_started(case, begun)
    lasting = lasts and is_lasting(case, begun)
    return row.but(
        start=STEPS if started else start_after(refusal.code, lasting=lasting),
        starts_at=None if started else refusal.until,
        refusal=PlannedRefusal(code=refusal.code, message=refusal.message, until=refusal.until, is_violation=lasting),
    )


def start_after(code: str, *, lasting: bool) -> str:
    if code == APPROVAL_REQUIRED:
        return WHEN_APPROVED
    return NEVER if lasting else LATER


def moves_of(
    case: Case, decision: BindingDecision, row: PlannedWorkload, situation: Situation
) -> Iterator[PlannedMove]:
    for transfer in transfers_between(case.before, dict(decision.clusters)):
        cluster = situation.view.get(Cluster, "", transfer.source)
        message = row.refusal.message if row.refusal is not None else ""
        if transfer.source in case.evicted and cluster is not None:
            message = reason_of_taints(cluster, no_execute_taints(cluster)).message
        yield PlannedMove(
            workload=case.name,
            cause=row.cause,
            source=transfer.source,
            to=tuple(TargetCluster(name=name, replicas=n) for name, n in transfer.to),
            replicas=transfer.replicas,
            mode=row.mode or AT_ONCE,
            start=row.start,
            starts_at=row.starts_at,
            message=message,
        )


def in_order(moves: Sequence[PlannedMove]) -> list[PlannedMove]:
    """The moves in the order in which they begin, as far as it is known."""

    def rank(move: PlannedMove) -> tuple[int, float, str, str]:
        at = move.starts_at.timestamp() if move.starts_at is not None else 0.0
        return STARTS.index(move.start), at, move.workload, move.source

    return sorted(moves, key=rank)
