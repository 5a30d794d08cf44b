"""Budgets: may a move begin now, what is used, what is left, who used it, and who waits."""

from typing import Any

from trimtab.api.kinds.disruption import OutageThresholds
from trimtab.api.wording import plural
from trimtab.console.facts import BudgetFacts
from trimtab.console.page import PageContext, View, page
from trimtab.console.permissions import sees
from trimtab.console.pulse import PULSE_TOPICS, pulse_of, storm_begins, thresholds_of
from trimtab.console.text import budget_reason
from trimtab.console.workload_facts import STUCK, WAITING, WorkloadFacts


def shown_budgets(context: PageContext) -> list[BudgetFacts]:
    spaces, is_open = context.values("ns"), context.query.get("open", "")
    found = [
        budget
        for budget in context.model.budgets.values()
        if sees(context.visibility.budgets, budget.namespace)
        and (not spaces or budget.namespace in spaces)
        and (not is_open or budget.open == (is_open == "yes"))
    ]
    return sorted(found, key=lambda budget: (budget.open, budget.key))


def waiting_for(budget: BudgetFacts, waiting: list[WorkloadFacts]) -> list[WorkloadFacts]:
    named = (f"budget {budget.name}:", f"budget {budget.name} requires an approval")
    return [one for one in waiting if one.namespace == budget.namespace and any(text in one.why for text in named)]


def rows_of(context: PageContext) -> list[dict[str, Any]]:
    keys = context.model.by_state.get(WAITING, set()) | context.model.by_state.get(STUCK, set())
    waiting = [context.model.workloads[key] for key in sorted(keys)]
    waiting = [one for one in waiting if sees(context.visibility.workloads, one.namespace)]
    rows = []
    for budget in shown_budgets(context):
        those, why = waiting_for(budget, waiting), budget_reason(budget.name, budget.why, context.now)
        rows.append(
            {
                "id": f"b-{budget.key}",
                "version": (budget.version_of_model, tuple(one.key for one in those), why),
                "budget": budget,
                "why": why,
                "waiting": those[:6],
                "more_waiting": max(0, len(those) - 6),
            }
        )
    return rows


def sentence(budgets: list[BudgetFacts], total: int) -> str:
    if not total:
        return "There are no budgets: every move may begin at once. A DisruptionBudget limits how much of an application moves at a time."
    opened = sum(budget.open for budget in budgets)
    if len(budgets) == 1 and not opened:
        return f"The budget {budgets[0].key} allows no move now."
    following = min(
        (budget for budget in budgets if not budget.open and budget.next_allowed_at),
        key=lambda one: str(one.next_allowed_at),
        default=None,
    )
    then = f" The next that opens is {following.key}." if following is not None else ""
    asking = sum(budget.open and budget.needs_approval for budget in budgets)
    approved = f", {asking} of them when a person approves it" if asking else ""
    return f"{opened} of {plural(len(budgets), 'budget')} {'allows' if opened == 1 else 'allow'} a move now{approved}.{then}"


def storm_marks(thresholds: OutageThresholds, total: int) -> list[tuple[int, str]]:
    """Where the storm brake begins to act: numbers of clusters that are not ready, and what it does then."""
    slow, stop = (storm_begins(thresholds, state, total) for state in ("slow", "stop"))
    marks = [(slow, f"slows from {slow} on")] if slow is not None and slow != stop else []
    return marks + ([(stop, f"stops from {stop} on")] if stop is not None else [])


@page(
    "budgets",
    "budgets.html",
    "budgets",
    live={"pulse": PULSE_TOPICS, "lead": ("budgets",), "storm": ("clusters", "policy")},
    rows={"budget-rows": ("budget_row", "rows", ("budgets", "workloads"))},
)
def budgets(context: PageContext) -> View:
    found = shown_budgets(context)
    thresholds = thresholds_of(context)
    policy = context.model.policy if context.visibility.policy else None
    rate = (
        policy.spec.eviction_rate.per_second if policy is not None and policy.spec.eviction_rate is not None else None
    )
    if rate is None:
        rate = context.services.setting("eviction-rate")
    following = min(
        (one.next_allowed_at for one in found if not one.open and one.next_allowed_at is not None), default=None
    )
    return {
        "sentence": sentence(found, len(context.model.budgets)),
        "next_at": following,
        "rows": rows_of(context),
        "total": len(found),
        "pulse": pulse_of(context),
        "slow_above": str(thresholds.slow_above),
        "stop_above": str(thresholds.stop_above),
        "storm_marks": storm_marks(thresholds, len(context.model.clusters)),
        "rate": str(rate),
        "components": [
            {
                "component": one.component,
                "namespace": one.namespace,
                "recent": len(one.recent),
                "in_flight": len(one.in_flight),
            }
            for one in (policy.status.components if policy is not None else ())
        ],
    }
