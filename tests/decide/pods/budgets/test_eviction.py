from datetime import UTC, datetime, timedelta

from trimtab.decide.pods.budgets.budget import RateWindow
from trimtab.decide.pods.budgets.eviction import (
    MAX_UNCONFIRMED,
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


def refusal_code(pod: EvictedPod, *budgets: BudgetSnapshot) -> int:
    refusal = verdict_for(pod, *budgets).refusal
    return refusal.code if refusal is not None else 0


def test_budget_whose_status_is_older_than_its_spec_refuses() -> None:
    assert refusal_code(RUNNING, OPEN._replace(generation=2, observed_generation=1)) == 429
    assert refusal_code(RUNNING, OPEN._replace(generation=2, observed_generation=2)) == 0


def test_closed_budget_refuses_until_it_opens() -> None:
    closed = OPEN._replace(closed_reason="no window is open", opens_at=NOON + timedelta(minutes=3))
    refused = verdict_for(RUNNING, closed)
    assert refused.refusal is not None
    assert (refused.refusal.causes, refused.refusal.retry_after_seconds) == (("no window is open",), 180)


def test_budget_with_too_many_unconfirmed_evictions_refuses() -> None:
    assert refusal_code(RUNNING, OPEN._replace(unconfirmed=MAX_UNCONFIRMED)) == 0
    assert refusal_code(RUNNING, OPEN._replace(unconfirmed=MAX_UNCONFIRMED + 1)) == 403


def test_unready_pod_is_protected_while_too_few_others_are_healthy_unless_the_policy_allows_it() -> None:
    short = BudgetSnapshot("b", disruptions_allowed=0, current_healthy=1, desired_healthy=2)
    unready = RUNNING._replace(ready=False)
    assert refusal_code(unready, short) == 429
    assert refusal_code(unready, short._replace(always_allow_unhealthy=True)) == 0
    assert refusal_code(RUNNING, short._replace(always_allow_unhealthy=True)) == 429


def test_only_pods_that_serve_nothing_are_exempt() -> None:
    for exempt in (
        RUNNING._replace(phase="Failed"),
        RUNNING._replace(terminating=True),
        RUNNING._replace(phase="Pending"),
    ):
        assert refusal_code(exempt, CLOSED) == 0
    assert refusal_code(RUNNING, CLOSED) == 429


def test_pending_pod_is_evicted_without_a_budget_only_while_it_is_unchanged() -> None:
    pending = RUNNING._replace(phase="Pending")
    assert verdict_for(pending, CLOSED) == EvictionVerdict(None, (), "7")
    assert verdict_for(pending._replace(terminating=True), CLOSED) == EvictionVerdict(None)


def test_pod_that_changed_since_the_caller_read_it_is_a_conflict() -> None:
    refused = verdict_for(RUNNING, OPEN, given=Preconditions(resource_version="6"))
    assert refused.refusal is not None
    assert refused.refusal.code == 409
    assert refused.pinned_version == ""
    allowed = verdict_for(RUNNING, OPEN, given=Preconditions(resource_version="7"))
    assert (allowed.refusal, allowed.pinned_version) == (None, "7")


def test_budget_with_fewer_than_no_disruptions_left_refuses() -> None:
    assert refusal_code(RUNNING, OPEN._replace(disruptions_allowed=-1)) == 403


def test_eviction_counts_in_the_rate_of_its_budget() -> None:
    (charge,) = verdict_for(RUNNING, OPEN._replace(rate=RateWindow(2, timedelta(hours=1)))).charges
    assert charge.rate is not None
    assert charge.rate.recent == (NOON,)
    (unlimited,) = verdict_for(RUNNING, OPEN).charges
    assert unlimited.rate is None


def test_preconditions_that_hold_are_no_conflict() -> None:
    assert verdict_for(RUNNING, OPEN, given=Preconditions("u", "7")).is_allowed
    changed = verdict_for(RUNNING, OPEN, given=Preconditions("u", "6"))
    assert changed.refusal is not None
    assert changed.refusal.code == 409


def test_an_exempt_pod_keeps_the_version_that_the_caller_names() -> None:
    """The deletion fails if the pod changes in between, whoever named the version."""
    unready, exempting = RUNNING._replace(ready=False), CLOSED
    assert verdict_for(unready, exempting).pinned_version == "7"
    assert verdict_for(unready, exempting, given=Preconditions(resource_version="7")).pinned_version == "7"
    pending = RUNNING._replace(phase="Pending", ready=False)
    assert verdict_for(pending, CLOSED).pinned_version == "7"
    conflict = verdict_for(unready, exempting, given=Preconditions(resource_version="6")).refusal
    assert conflict is not None
    assert conflict.code == 409


def test_a_recreated_exempt_pod_is_to_be_tried_again() -> None:
    unready = RUNNING._replace(ready=False)
    refusal = verdict_for(unready, CLOSED, given=Preconditions(uid="another")).refusal
    assert refusal is not None
    assert refusal.code == 429


def test_an_exhausted_budget_says_why() -> None:
    def cause(**fields: object) -> str:
        refusal = verdict_for(RUNNING, CLOSED._replace(**fields)).refusal
        assert refusal is not None
        return refusal.causes[0]

    closed = "The disruption budget closed does not allow evicting pods currently"
    failed = {"condition_status": "False", "condition_reason": "SyncFailed", "condition_message": "no scale"}
    assert cause() == "The disruption budget closed needs 1 healthy pods and has 1 currently"
    assert cause(current_healthy=2) == closed
    assert cause(**failed) == f"{closed} because it failed sync: no scale"
    assert cause(**failed | {"condition_status": "True"}).endswith("has 1 currently")
    assert cause(**failed | {"condition_message": ""}).endswith("has 1 currently")
    other = failed | {"condition_reason": "Paused"}
    assert cause(**other).endswith("has 1 currently")
    assert cause(**other, current_healthy=2) == f"{closed} (Paused): no scale"
