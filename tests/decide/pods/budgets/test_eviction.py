from datetime import UTC, datetime, timedelta

from trimtab.decide.pods.budgets.budget import RateWindow
from trimtab.decide.pods.budgets.eviction import (
    BudgetSnapshot,
    EvictedPod,
    EvictionVerdict,
    Preconditions,
    eviction_verdict,
)

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
RUNNING = EvictedPod("web-0", uid="u", resource_version="7", ready=True)
OPEN = BudgetSnapshot("open", disruptions_allowed=2, current_healthy=3, desired_healthy=1)
NO_PRECONDITIONS = Preconditions()
CLOSED = BudgetSnapshot("closed", disruptions_allowed=0, current_healthy=1, desired_healthy=1)


def verdict_for(
    pod: EvictedPod, *budgets: BudgetSnapshot, given: Preconditions = NO_PRECONDITIONS, several: bool = True
) -> EvictionVerdict:
    return eviction_verdict(pod, budgets, given, NOON, several_allowed=several)


def test_open_budget_is_charged_one() -> None:
    (debit,) = verdict_for(RUNNING, OPEN).charges
    assert debit.disruptions_allowed == 1


def test_all_budgets_must_allow_and_none_is_charged_when_one_refuses() -> None:
    refused = verdict_for(RUNNING, OPEN, CLOSED)
    assert refused.refusal is not None
    assert refused.refusal.code == 429
    assert refused.charges == ()


def test_several_budgets_are_an_error_where_kubernetes_has_one() -> None:
    refused = verdict_for(RUNNING, OPEN, OPEN, several=False)
    assert refused.refusal is not None
    assert refused.refusal.code == 500


def test_finished_pod_checks_no_budget() -> None:
    assert verdict_for(RUNNING._replace(phase="Succeeded"), CLOSED) == EvictionVerdict(None)


def test_unready_pod_is_evicted_without_a_charge_while_it_is_unchanged() -> None:
    healthy = BudgetSnapshot("b", disruptions_allowed=0, current_healthy=2, desired_healthy=2)
    assert verdict_for(RUNNING._replace(ready=False), healthy) == EvictionVerdict(None, (), "7")


def test_exhausted_rate_returns_the_seconds_to_wait() -> None:
    rate = RateWindow(1, timedelta(hours=1), (NOON - timedelta(minutes=50),))
    refused = verdict_for(RUNNING, OPEN._replace(rate=rate))
    assert refused.refusal is not None
    assert refused.refusal.retry_after_seconds == 600


def test_recreated_pod_is_a_conflict() -> None:
    refused = verdict_for(RUNNING, given=Preconditions(uid="another"))
    assert refused.refusal is not None
    assert refused.refusal.code == 409
