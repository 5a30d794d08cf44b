"""The page of budgets: a budget that requires an approval says so, and lists what waits for it."""

import asyncio

from console.fake_console import call, fill, new_console, signed_in
from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    OutageThresholds,
)
from trimtab.api.selectors import LabelSelector
from trimtab.api.value import Meta
from trimtab.console.facts import budget_facts
from trimtab.console.pages.budgets import sentence, storm_marks, waiting_for
from trimtab.console.pulse import storm_state
from trimtab.console.workload_facts import WAITING, WorkloadFacts

BUDGET = DisruptionBudget(
    metadata=Meta(name="asks", namespace="shop"),
    spec=DisruptionBudgetSpec(target="Workloads", selector=LabelSelector(), approval="Required"),
    status=DisruptionBudgetStatus(allowed_now=1),
)


def test_a_budget_that_requires_an_approval_is_not_said_to_allow_moves() -> None:
    facts = budget_facts(BUDGET)
    assert sentence([facts], 1) == "1 of 1 budget allows a move now, 1 of them when a person approves it."


def test_workloads_that_wait_for_an_approval_wait_for_the_budget() -> None:
    asked = WorkloadFacts(
        namespace="shop",
        api_version="apps/v1",
        binding=("shop", "web-deployment"),
        state=WAITING,
        kind="Deployment",
        name="web",
        why="PolicyChange: budget asks requires an approval: trimtab approve deployment/web",
    )
    other = asked.but(why="PolicyChange: budget asks-more requires an approval: trimtab approve deployment/web")
    assert waiting_for(budget_facts(BUDGET), [asked, other]) == [asked]


def test_the_page_says_when_a_move_may_begin() -> None:
    console = new_console()
    fill(console)
    console.model.put_budget("shop/asks", BUDGET)
    cookie, _ = signed_in(console)
    assert "when approved" in asyncio.run(call(console, "/budgets", cookie=cookie)).text


def test_a_single_closed_budget_is_named() -> None:
    closed = budget_facts(BUDGET).but(open=False)
    assert sentence([closed], 1) == "The budget shop/asks allows no move now."


def test_storm_brake_is_marked_where_it_begins_to_act() -> None:
    thresholds = OutageThresholds()
    assert storm_marks(thresholds, 8) == [(4, "slows from 4 on"), (6, "stops from 6 on")]
    assert storm_state(thresholds, 3, 8) == "quiet"
    assert storm_state(thresholds, 4, 8) == "slow"
    assert storm_marks(thresholds, 2) == []
