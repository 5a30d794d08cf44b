"""The costs of a plan: what it asks of budgets, and the verdict."""

from collections.abc import Iterator, Sequence

from trimtab.api.kind import key_of
from trimtab.api.kinds.disruption import DisruptionBudget
from trimtab.api.kinds.work import ResourceBinding
from trimtab.controllers.movement import binding_moves
from trimtab.decide.gate import Availability, budget_state
from trimtab.dryrun.plan_cases import Situation
from trimtab.dryrun.plan_loads import spread_of
from trimtab.dryrun.plan_outcomes import Outcome
from trimtab.dryrun.plan_result import (
    CHANGES,
    MOVE,
    NO_CHANGE,
    REFUSED,
    STEPS,
    UNCHANGED,
    VIOLATIONS,
    WHEN_APPROVED,
    BudgetCost,
    ClusterLoad,
    Plan,
    PlannedWorkload,
    Verdict,
)
from trimtab.dryrun.static_view import StaticView

WORSE_BY = 0.5
"""Percentage points by which the spread of load must grow before a rebalance counts as worse."""


def budget_costs(situation: Situation, outcomes: Sequence[Outcome]) -> tuple[BudgetCost, ...]:
    """The cost for every budget that the plan charges, or that a failure takes replicas from."""
    asked: dict[object, list[Outcome]] = {}
    for outcome in outcomes:
        for budget in outcome.budgets:
            asked.setdefault(key_of(budget), []).append(outcome)
    costs = []
    for budget in situation.after.all(DisruptionBudget):
        moved = asked.get(key_of(budget), [])
        cost = _cost_of(budget, moved, situation.view_before)
        if situation.lost and binding_moves.is_workload_budget(budget):
            cost = _with_losses(cost, budget, situation.view_before, situation.lost)
        if moved or cost.lost:
            costs.append(cost)
    return tuple(costs)


def _cost_of(budget: DisruptionBudget, outcomes: Sequence[Outcome], view: StaticView) -> BudgetCost:
    available = binding_moves.availability_of(budget, view)
    state = budget_state(binding_moves.without_finished_moves(budget, view), available, view.now)
    charged = {
        (entry.object, entry.from_)
        for outcome in outcomes
        for found in outcome.charged
        if key_of(found) == key_of(budget)
        for entry in found.status.in_flight
    }
    moves = [move for outcome in outcomes for move in outcome.moves]
    return BudgetCost(
        budget=f"{budget.namespace}/{budget.name}",
        moves=len(moves),
        started=sum(
            (binding_moves.object_of(o.case.binding), move.source) in charged for o in outcomes for move in o.moves
        ),
        replicas=sum(move.replicas for move in moves),
        allowed_now=state.disruptions_allowed(available.desired),
        next_at=state.next_at,
    )


def _with_losses(cost: BudgetCost, budget: DisruptionBudget, view: StaticView, lost: frozenset[str]) -> BudgetCost:
    """The cost with the replicas that failing clusters take away, and how many are then missing to the minimum."""
    covered = (
        one for one in view.all(ResourceBinding, budget.namespace) if binding_moves.is_covered(one, budget, view)
    )
    gone = sum(binding_moves.ready_replicas_in(binding, name, view) for binding in covered for name in lost)
    now = binding_moves.availability_of(budget, view)
    state = budget_state(budget, Availability(now.desired, max(0, now.available - gone)), view.now)
    return cost.but(lost=gone, missing=state.missing)


def verdict_of(plan: Plan, reported: Sequence[ClusterLoad] = ()) -> Verdict:
    """Nothing, changes, or violations; and for a rebalance whether the load is spread worse than before.

    `reported` is the load without what clusters may not have reported yet: worse is only what is worse with and without.
    """
    violations = [row for row in plan.workloads if row.refusal is not None and row.refusal.is_violation]
    before, after = spread_of(plan.load, after=False), spread_of(plan.load, after=True)
    only_rebalance = plan.change.rebalance is not None and not plan.change.is_loss and not plan.change.drain
    moved = any(row.action != UNCHANGED and not row.is_pending for row in plan.workloads)
    moves = any(row.action == MOVE and not row.is_pending for row in plan.workloads)
    worse = only_rebalance and moves and is_spread_worse(plan.load) and (not reported or is_spread_worse(reported))
    written = any(not text.endswith(" unchanged") for text in plan.objects)
    outcome = VIOLATIONS if violations else CHANGES if moved or written else NO_CHANGE
    sentences = [*_sentences(plan, violations)]
    if worse:
        sentences.append(f"The load is spread worse than now: {before} to {after} percentage points of CPU.")
    return Verdict(
        outcome=outcome,
        message=" ".join(sentences) or ("No workload changes." if written else "Nothing would change."),
        is_worse=worse,
        spread_before=before,
        spread_after=after,
    )


def is_spread_worse(loads: Sequence[ClusterLoad]) -> bool:
    before, after = spread_of(loads, after=False), spread_of(loads, after=True)
    return before is not None and after is not None and after > before + WORSE_BY


def _sentences(plan: Plan, violations: Sequence[PlannedWorkload]) -> Iterator[str]:
    rows = [row for row in plan.workloads if not row.is_pending]
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.action] = counts.get(row.action, 0) + 1
    verbs = {"Create": "created", "Move": "moved", "Scale": "scaled", "Release": "released from their policies"}
    parts = [f"{counts[action]} {verb}" for action, verb in verbs.items() if counts.get(action)]
    if parts:
        total = sum(counts.get(action, 0) for action in verbs)
        yield f"Workloads: {', '.join(parts)}." if total != 1 else f"One workload is {parts[0].partition(' ')[2]}."
    unapproved = sum(row.start == WHEN_APPROVED for row in rows)
    if unapproved:
        who = "It waits" if len(rows) == 1 else f"{unapproved} of them {'waits' if unapproved == 1 else 'wait'}"
        yield f"{who} for an approval."
    stepwise = sum(row.start == STEPS for row in rows)
    if stepwise:
        yield f"{stepwise} of them {'moves' if stepwise == 1 else 'move'} in steps."
    delayed = sum(row.refusal is not None and not row.refusal.is_violation for row in rows) - unapproved - stepwise
    if delayed:
        yield f"{delayed} of them {'waits' if delayed == 1 else 'wait'} for a budget or for earlier moves."
    refused = sum(row.action not in verbs for row in violations)
    if blocked := len(violations) - refused:
        yield f"{blocked} of them may not begin: a budget refuses {'it' if blocked == 1 else 'them'}."
    if refused:
        yield "One workload is refused." if refused == 1 else f"{refused} workloads are refused."
    down = sum(row.lost_replicas for row in plan.workloads if row.action == REFUSED)
    if down:
        yield f"{down} {'replica stays' if down == 1 else 'replicas stay'} down."
    if pending := len(plan.workloads) - len(rows):
        yield f"{pending} {'moves' if pending == 1 else 'move'} without this change as well."
