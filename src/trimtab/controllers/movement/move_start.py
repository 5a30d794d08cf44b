"""Starts the moves that a decision implies: through the disruption gate, budgets first, the binding last."""

from collections.abc import Iterator
from datetime import timedelta

from trimtab.api.kinds.work import Binding, PendingApproval
from trimtab.api.value import Key
from trimtab.controllers import well_known
from trimtab.controllers.contract import (
    Effect,
    RequeueAfter,
    View,
    WriteSequence,
)
from trimtab.controllers.movement import binding_moves, state
from trimtab.controllers.movement.approval import APPROVAL_REQUIRED, without_approval
from trimtab.controllers.movement.gate import (
    MOVE_BLOCKED,
    SCALE,
    VOLUNTARY_CAUSES,
    BudgetBusy,
    apply_gate,
    move_started_events,
    options_for,
)
from trimtab.controllers.propagation.dispatch import expected_clusters, works_of
from trimtab.controllers.propagation.scheduling.events import decision_events
from trimtab.controllers.propagation.scheduling.intent import SchedulingIntent
from trimtab.controllers.propagation.scheduling.result import report_stalled, status_after, with_decision
from trimtab.decide.gate import GateRefusal
from trimtab.decide.karmada import BindingDecision

BLOCKED_SECONDS = 15.0
FIRST_RETRY_SECONDS = 1.0
"""The delay of the first retry after a budget refused a move."""
LEFTOVER_TIME = timedelta(seconds=60)
"""How long replicas of a finished move can delay the next one; others, such as of an autoscaler, do not."""
LEFTOVER_RETRY_SECONDS = 1.0
PAUSE_AFTER_REVERT = timedelta(seconds=600)


def is_blocked(binding: Binding) -> bool:
    condition = binding_moves.stalled_condition_of(binding)
    return condition is not None and condition.reason == MOVE_BLOCKED


def seconds_until_move(binding: Binding, intent: SchedulingIntent, view: View) -> float | None:
    """Seconds until a voluntary move may start: 0 while another move is in progress, more after a reverted one.

    A decision that replaces clusters which were evicted during the move is not voluntary. Who edits a policy or requests a
    rebalance after a reverted move does not wait, also when the edit takes replicas out of a cluster that leaves.
    """
    if intent.cause not in VOLUNTARY_CAUSES or intent.cause == "PolicyChange":
        return None
    if binding.status.holds:
        return None if binding_moves.is_replacement_lost(binding) else 0.0
    condition = binding_moves.stalled_condition_of(binding)
    if condition is None or condition.reason != "MoveReverted" or condition.last_transition_time is None:
        return None
    remaining = (condition.last_transition_time + PAUSE_AFTER_REVERT - view.now).total_seconds()
    requested = binding.spec.reschedule_triggered_at
    newer = requested is not None and requested > condition.last_transition_time
    return remaining if remaining > 0 and not newer and not intent.is_policy_edit else None


def grows_over_leftovers(binding: Binding, decision: BindingDecision, cause: str, view: View) -> bool:
    """Whether a cluster that would get replicas still has some of a move that has just finished.

    The next move counts the replicas that become ready from those that are ready when it starts. Replicas that are about to
    be deleted would be counted: their number would never be exceeded, or they would pass as the replacement.
    """
    if cause not in (*VOLUNTARY_CAUSES, SCALE) or cause == "PolicyChange" or binding.status.holds:
        return False
    shares = binding_moves.current_placement(binding)
    growing = {name for name, n in decision.clusters if n > shares.get(name, 0)}
    expected = expected_clusters(binding)
    copies = {well_known.cluster_of(work.namespace) for work in works_of(binding, view)}
    if growing & copies - expected:
        return True
    finished = (move.status.finished for move in binding_moves.moves_of(binding, view))
    if not any(at is not None and view.now - at < LEFTOVER_TIME for at in finished):
        return False
    ready = binding_moves.ready_replicas_by_cluster(binding, view)
    return any(n > shares.get(name, 0) for name, n in ready.items() if name in growing)


def removes_replicas(binding: Binding, decision: BindingDecision) -> bool:
    after = dict(decision.clusters)
    return bool(binding.status.holds) or any(
        n > after.get(name, 0) or name not in after for name, n in binding_moves.placement_before_moves(binding).items()
    )


def start_move(
    binding: Binding, decision: BindingDecision, intent: SchedulingIntent, view: View, busy: set[Key]
) -> Iterator[Effect]:
    """Start a move: charge the budget first, then write the Move object, then change the binding."""
    if grows_over_leftovers(binding, decision, intent.cause, view):
        yield RequeueAfter(LEFTOVER_RETRY_SECONDS)
        return
    begun = apply_gate(binding, decision, intent.cause, options_for(binding, view), view, busy)
    if isinstance(begun, BudgetBusy):
        yield RequeueAfter(0.05)
        return
    yield from begun.charged_budgets
    yield from begun.log_entries
    held = state.begin(binding, begun.holds, begun.replacement)
    placed = state.place(with_decision(held, decision) if begun.is_complete else held, begun.clusters)
    moved = placed.spec != binding.spec
    status = status_after(placed, decision, view, moved=moved)
    if not begun.is_complete:
        # The reschedule request, the old group and the old placement stay: the rest is scheduled again.
        status = held.status.but(scheduler_observed_generation=binding.metadata.generation + (1 if moved else 0))
    placed = placed.but(status=status)
    if begun.is_complete and intent.cause in ("Rebalance", "PolicyChange"):
        placed = state.forget_placement(placed)
    elif falls_back(binding, decision):
        placed = state.remember_placement(placed, binding, view.now)
    refusal = begun.refusal
    if refusal is not None and not moved:
        waiting = with_pending_approval(binding, refusal, decision, intent.cause, view)
        yield from report_stalled(waiting, MOVE_BLOCKED, f"{begun.cause}: {refusal.message}", view, seen=binding)
    else:
        placed = binding_moves.with_stalled_condition(without_pending_approval(placed), "", "", view.now)
        if begun.is_complete:
            placed = without_approval(placed)
        yield WriteSequence((held, placed)) if held.status != binding.status else placed
        yield from move_started_events(binding, begun)
        if begun.is_complete:
            yield from decision_events(binding, decision)
    if refusal is not None and moved:
        yield RequeueAfter(0.0)  # the next reconcile reports why the remaining replicas may not move
    elif refusal is not None and not begun.holds:
        # A binding becomes blocked only with this write, so a budget change before it triggers nothing: retry soon.
        delay = BLOCKED_SECONDS if is_blocked(binding) else FIRST_RETRY_SECONDS
        seconds = (refusal.until - view.now).total_seconds() if refusal.until is not None else delay
        yield RequeueAfter(max(0.0, seconds) + 0.001)


def with_pending_approval(
    binding: Binding, refusal: GateRefusal, decision: BindingDecision, cause: str, view: View
) -> Binding:
    """The binding with the move that waits for a person, if that is what it waits for."""
    if refusal.code != APPROVAL_REQUIRED:
        return without_pending_approval(binding)
    clusters = binding_moves.targets_of(dict(decision.clusters))
    seen = binding.status.pending_approval
    if seen is not None and (seen.cause, seen.clusters) == (cause, clusters):
        return binding
    since = seen.since if seen is not None and seen.cause == cause else view.now
    pending = PendingApproval(cause=cause, clusters=clusters, since=since)
    return binding.but(status=binding.status.but(pending_approval=pending))


def without_pending_approval(binding: Binding) -> Binding:
    if binding.status.pending_approval is None:
        return binding
    return binding.but(status=binding.status.but(pending_approval=None))


def falls_back(binding: Binding, decision: BindingDecision) -> bool:
    """Whether the decision selects a later affinity group than the one in use."""
    groups = [term.affinity_name for term in decision.request.placement.groups]
    old, new = binding.status.scheduler_observing_affinity_name, decision.affinity_name
    return old in groups and new in groups and groups.index(new) > groups.index(old)
