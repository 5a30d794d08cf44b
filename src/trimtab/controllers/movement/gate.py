"""Applies the disruption gate to a scheduling decision: what may move now, what is held, and what must wait.

The problem. A decision says where replicas should be. Writing it at once would delete replicas in the clusters that
lose them before the new ones are ready, and many decisions together would take down more replicas than users allow.

How a decision passes the gate (`apply_gate`):
1. The difference between the placement before the move and the decision is split into transfers: replicas that leave
   one cluster, and where their replacements start. Growth that replaces nothing is not gated.
2. Transfers whose source has a hold passed the gate earlier; they continue and are not charged or logged again. The
   same holds for a cluster that an eviction took out of the placement meanwhile: it has a Move of its own. For the others,
   if the cause is voluntary, every DisruptionBudget over the workload is evaluated: replicas to spare, rate, moves in
   flight, windows. `decide.gate.admit` admits as many transfers, in order, as every budget allows.
   Where an approval is required, nothing is admitted before a person has given it (`movement/approval.py`).
3. The mode is chosen. AtOnce deletes old replicas when the placement is written. ReplacementFirst starts the
   replacement and keeps the old replicas until it is ready. A rebalance, failback, score change, drain or scale that would
   remove the last ready copy is never AtOnce.
4. The caller writes the result in this order: the charged budgets, the Move objects (the log), the status of the binding
   with its holds, and last the new clusters of the binding. Transfers that are not admitted change nothing; the
   refusal says why, and until when if only time is missing.

A hold (`status.holds`) names a cluster whose share in `spec.clusters` has shrunk and which keeps the replicas running
for now. `status.replacement` records the placement and the ready replicas from before the move. The controller
`replacement_hold` releases the holds when as many replacements are ready as replicas leave, and restores the placement
from before the move when they are not ready in time.

Invariants:
- A voluntary move is charged to every budget that applies to it before anything is deleted.
- With ReplacementFirst, a cluster has its hold before its share shrinks.
- In one batch, at most one binding is charged to a budget, because the view does not show the charges of the others
  yet. The others get `BudgetBusy` and try again.

Why it is done this way. The order of writes makes a crash safe at every point. It leaves a charge without a move, a Move
that never began, or a hold without a new placement; their controllers remove all three after a timeout. A crash can waste
budget but never exceed it. All state is in API objects, so a restarted control plane continues where the last one
stopped. Involuntary causes (taint evictions and application failover) do not pass this gate: their replicas are already
lost or about to be, and waiting for a budget would only delay the repair. A freeze stops them as well (`movement/freeze.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.rebalancer import MoveOptions, WorkloadRebalancer
from trimtab.api.kinds.work import Binding, HeldReplicas, StateBeforeMove, TargetCluster
from trimtab.api.value import Key
from trimtab.api.wording import plural, verb
from trimtab.controllers import well_known
from trimtab.controllers.contract import Effect, RecordEvent, View
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.approval import missing_approval
from trimtab.controllers.movement.freeze import current_freeze
from trimtab.controllers.movement.move_reasons import MoveReason, reason_of_logged_move, reason_of_move
from trimtab.controllers.propagation.work_rendering import is_workload
from trimtab.controllers.settings import setting
from trimtab.decide.gate import (
    Admitted,
    GateRefusal,
    Transfer,
    admit,
    apply_transfers,
    budget_state,
    charge_budget,
    surge_limit,
    transfers_between,
)
from trimtab.decide.karmada import BindingDecision
from trimtab.decide.request import DUPLICATED

VOLUNTARY_CAUSES = ("Rebalance", "Failback", "ScoreChange", "Drain", "PolicyChange", "Reschedule")
"""Voluntary causes: their moves need the consent of the budgets."""
SCALE = "Scale"
"""The cause of a decision about another number of replicas. It needs no consent, but may select other clusters."""
REPLACEMENT_FIRST_CAUSES = ("Rebalance", "Failback", "ScoreChange", "Drain", SCALE)
"""Causes that start the replacement first by default; the author of a policy edit chooses the moment himself."""
REPLACEMENT_FIRST, AT_ONCE = "ReplacementFirst", "AtOnce"
SOURCE = "trimtab-mover"
MOVE_BLOCKED = "MoveBlocked"


class GateResult(NamedTuple):
    """What begins now: writes that precede the binding, its new shares and holds, and the refusal of the rest."""

    charged_budgets: tuple[DisruptionBudget, ...]
    log_entries: tuple[Effect, ...]
    clusters: tuple[TargetCluster, ...]
    holds: tuple[HeldReplicas, ...]
    replacement: StateBeforeMove | None
    refusal: GateRefusal | None
    cause: str
    """The cause of the first move."""

    @property
    def is_complete(self) -> bool:
        return self.refusal is None


class BudgetBusy(NamedTuple):
    """Another binding of this batch is charged to the same budget: try again shortly."""


def apply_gate(
    binding: Binding, decision: BindingDecision, cause: str, options: MoveOptions, view: View, busy_budgets: set[Key]
) -> GateResult | BudgetBusy:
    """The part of this decision that may begin now."""
    before, after = binding_moves.placement_before_moves(binding), dict(decision.clusters)
    planned = transfers_between(before, after)
    if cause != SCALE and (frozen := current_freeze(view)) is not None:
        return frozen_result(binding, cause, frozen)
    left = binding_moves.moves_out_of_left_clusters(binding, view)
    running = {hold.cluster for hold in binding.status.holds} | left.keys()
    requested = [transfer for transfer in planned if transfer.source not in running]
    budgets = binding_moves.budgets_of(binding, view, cause) if cause in VOLUNTARY_CAUSES and requested else []
    if any(key_of(budget) in busy_budgets for budget in budgets):
        return BudgetBusy()
    states = [budget_state(budget, binding_moves.availability_of(budget, view), view.now) for budget in budgets]
    mode = mode_of(binding, planned, cause, options, view, budgeted=bool(budgets))
    if any(transfer.to for transfer in planned) and any(state.surge and state.replicas == 0 for state in states):
        mode = REPLACEMENT_FIRST  # AtOnce would be refused, and the budget allows a surge
    first = mode == REPLACEMENT_FIRST
    admitted = admit(
        requested,
        states,
        view.now,
        replacement_first=first,
        surge=surge_limit(options.max_surge, sum(after.values())) if first and options.max_surge != "100%" else None,
        divisible=decision.request.is_workload and decision.request.placement.strategy != DUPLICATED,
    )
    if cause in VOLUNTARY_CAUSES and requested and view.profile.replacement_first:
        refusal = missing_approval(binding, cause, after, budgets, view)
        admitted = admitted if refusal is None else Admitted((), refusal)
    if not first and cause == "Drain" and removes_last_copy(binding, planned, view):
        admitted = Admitted((), GateRefusal("LastCopy", "no other cluster has a ready copy"))
    continued = [transfer for transfer in planned if transfer.source in running]
    shares = apply_transfers(before, after, (*continued, *admitted.transfers))
    reasons = {
        name: reason_of_logged_move(left[name])
        if name in left
        else reason_of_move(binding, name, cause, decision, view)
        for name, replicas in before.items()
        if replicas > after.get(name, 0) or name not in after
    }
    holds = holds_of(binding, before, shares, reasons, options, view) if first else ()
    busy_budgets.update(map(key_of, budgets))
    return GateResult(
        tuple(charged_budget(binding, budget, admitted, reasons, view) for budget in budgets if admitted.transfers),
        tuple(move_log_entries(binding, admitted, reasons, mode, budgets, view)),
        binding_moves.targets_of(shares, decision.targets, binding.spec.clusters),
        holds,
        state.state_before_move(binding, binding_moves.ready_replicas_by_cluster(binding, view)) if holds else None,
        admitted.refusal,
        next((reason.cause for reason in reasons.values()), cause),
    )


def frozen_result(binding: Binding, cause: str, refusal: GateRefusal) -> GateResult:
    """Nothing begins, and what has begun stays as it is."""
    status = binding.status
    return GateResult((), (), binding.spec.clusters, status.holds, status.replacement, refusal, cause)


def mode_of(
    binding: Binding, planned: list[Transfer], cause: str, options: MoveOptions, view: View, *, budgeted: bool
) -> str:
    """Whether old replicas stay until the new ones are ready; without a replacement there is nothing to wait for."""
    if not any(transfer.to for transfer in planned) or (cause == SCALE and not any(one.replicas for one in planned)):
        return AT_ONCE
    if binding.status.holds:
        return REPLACEMENT_FIRST
    template = view.raw(well_known.template_ref(binding))
    mode = options.mode or (
        well_known.annotations_of(template).get(well_known.MOVE_MODE, "") if template is not None else ""
    )
    if mode == AT_ONCE and cause in REPLACEMENT_FIRST_CAUSES and removes_last_ready_copy(binding, planned, view):
        return REPLACEMENT_FIRST
    if mode in (AT_ONCE, REPLACEMENT_FIRST):
        return mode
    return REPLACEMENT_FIRST if cause in REPLACEMENT_FIRST_CAUSES or budgeted else AT_ONCE


def removes_last_ready_copy(binding: Binding, planned: list[Transfer], view: View) -> bool:
    """Whether no ready replica would remain; an object without replicas leaves a cluster as a whole."""
    ready = binding_moves.ready_replicas_by_cluster(binding, view)
    leaving = {transfer.source: transfer.replicas for transfer in planned}
    rest = {name: n - leaving[name] if is_workload(binding) else 0 for name, n in ready.items() if name in leaving}
    return any(ready.values()) and not any(n > 0 for n in {**ready, **rest}.values())


def removes_last_copy(binding: Binding, planned: list[Transfer], view: View) -> bool:
    """Whether the copies that a move takes away are the only ready ones; of other objects, the only applied ones."""
    if is_workload(binding):
        return removes_last_ready_copy(binding, planned, view)
    leaving = {transfer.source for transfer in planned}
    applied = {name for name, item in binding_moves.status_by_cluster(binding).items() if item.applied}
    return bool(applied) and applied <= leaving


def holds_of(
    binding: Binding,
    before: dict[str, int],
    shares: dict[str, int],
    reasons: Mapping[str, MoveReason],
    options: MoveOptions,
    view: View,
) -> tuple[HeldReplicas, ...]:
    """One hold for each cluster that loses replicas."""
    timeout = timedelta(seconds=options.timeout_seconds)
    holds = []
    for name, replicas in sorted(before.items()):
        leaving = replicas - shares.get(name, 0)
        if leaving > 0 or name not in shares:
            holds.append(state.hold(binding, name, leaving, reasons[name].cause, view.now, timeout))
    return tuple(holds)


def charged_budget(
    binding: Binding, budget: DisruptionBudget, admitted: Admitted, reasons: Mapping[str, MoveReason], view: View
) -> DisruptionBudget:
    entries = [
        binding_moves.in_flight_entry(binding, transfer, reason.cause, reason.by or SOURCE, view.now)
        for transfer in admitted.transfers
        for reason in (reasons[transfer.source],)
    ]
    return charge_budget(budget, entries, view.now)


def move_log_entries(
    binding: Binding,
    admitted: Admitted,
    reasons: Mapping[str, MoveReason],
    mode: str,
    budgets: Sequence[DisruptionBudget],
    view: View,
) -> Iterator[Effect]:
    for transfer in admitted.transfers:
        reason = reasons[transfer.source]
        cause = binding_moves.MoveCause(reason.cause, reason.by or SOURCE, mode, reason.message, tuple(budgets))
        move = binding_moves.move_of_binding(binding, transfer, cause, view.now)
        yield from binding_moves.log_start(move, view)


def move_started_events(binding: Binding, result: GateResult) -> Iterator[RecordEvent]:
    """One event for each new hold."""
    for hold in result.holds:
        if hold not in binding.status.holds:
            waits = verb(hold.replicas, "waits until its", "wait until their")
            text = f"{plural(hold.replicas, 'replica')} in {hold.cluster} {waits} replacement is ready ({hold.reason})."
            yield RecordEvent(well_known.ref_of(binding), "MoveStarted", text, SOURCE)


def options_for(binding: Binding, view: View) -> MoveOptions:
    """The move options of the rebalancer that requested the decision, or the defaults."""
    request = binding_moves.reschedule_request_of(binding)
    rebalancer = view.get(WorkloadRebalancer, "", request.rebalancer) if request.rebalancer else None
    if rebalancer is not None and rebalancer.spec.move is not None:
        return rebalancer.spec.move
    return MoveOptions(timeout_seconds=int(setting(view, "move-timeout-seconds")))
