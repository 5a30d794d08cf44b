from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.decide.pods.budgets.budget import (
    BudgetAssessment,
    BudgetLimit,
    CoveredPod,
    OwnerController,
    RateWindow,
    UnknownScale,
    assess,
    expected_pods,
    scaled_value,
)

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
WEB = {"rs": OwnerController("rs", "ReplicaSet", 3)}


def pods(count: int, *, ready: bool = True) -> list[CoveredPod]:
    return [CoveredPod(f"web-{i}", ready=ready, controller="ReplicaSet/web", controller_uid="rs") for i in range(count)]


def assess_web(
    limit: BudgetLimit, covered: list[CoveredPod], disrupted: dict[str, datetime] | None = None
) -> BudgetAssessment:
    found = assess(limit, covered, WEB, disrupted or {}, NOON)
    assert isinstance(found, BudgetAssessment)
    return found


def test_percentage_is_rounded_up() -> None:
    assert scaled_value("34%", 3) == 2
    assert scaled_value(2, 100) == 2


def test_max_unavailable_counts_against_the_replicas_of_the_controller() -> None:
    assert assess_web(BudgetLimit(max_unavailable=1), pods(3)).allowed == 1


def test_deployment_above_two_replica_sets_counts_once() -> None:
    controllers = {
        "old": OwnerController("old", "ReplicaSet", 2, "web"),
        "new": OwnerController("new", "ReplicaSet", 9, "web"),  # more than there should be, while it is rolled out
        "web": OwnerController("web", "Deployment", 10),
    }
    covered = [CoveredPod("a", controller_uid="old"), CoveredPod("b", controller_uid="new")]
    found = assess(BudgetLimit(min_available="50%"), covered, controllers, {}, NOON)
    assert isinstance(found, BudgetAssessment)
    assert (found.expected, found.desired_healthy) == (10, 5)


def test_pod_without_known_controller_makes_the_budget_unknown() -> None:
    assert isinstance(
        assess(BudgetLimit(max_unavailable=1), [CoveredPod("a", controller_uid="x")], {}, {}, NOON), UnknownScale
    )


def test_granted_disruption_counts_until_the_deadline_and_is_dropped_after_it() -> None:
    for age, allowed, kept in ((119, 0, 1), (120, 1, 1), (121, 1, 0)):
        granted = {"web-0": NOON - timedelta(seconds=age)}
        found = assess_web(BudgetLimit(max_unavailable=1), pods(3), granted)
        assert (found.allowed, len(found.disrupted)) == (allowed, kept)


def test_rate_returns_exactly_when_the_next_disruption_is_allowed() -> None:
    rate = RateWindow(2, HOUR).with_disruption(NOON).with_disruption(NOON + timedelta(minutes=10))
    assert rate.remaining(NOON + timedelta(minutes=59)) == 0
    assert rate.next_allowed_at(NOON + timedelta(minutes=59)) == NOON + HOUR
    assert rate.remaining(NOON + HOUR) == 1


def test_clock_stepping_back_opens_no_window() -> None:
    rate = RateWindow(1, HOUR).with_disruption(NOON)
    back = NOON - timedelta(minutes=5)
    assert rate.remaining(back) == 0
    assert rate.next_allowed_at(back) == NOON + HOUR


def test_disruptions_after_a_clock_step_back_count_until_the_clock_catches_up() -> None:
    rate = RateWindow(2, HOUR).with_disruption(NOON).with_disruption(NOON - timedelta(minutes=50))
    assert rate.remaining(NOON + timedelta(minutes=15)) == 0


@given(st.integers(1, 4), st.lists(st.integers(0, 300), max_size=40))
def test_no_window_ever_exceeds_the_rate(limit: int, steps: list[int]) -> None:
    rate, now, accepted = RateWindow(limit, timedelta(seconds=500)), NOON, []
    for step in steps:
        now += timedelta(seconds=step)
        if rate.remaining(now):
            rate = rate.with_disruption(now)
            accepted.append(now)
    for end in accepted:
        assert sum(end - timedelta(seconds=500) < at <= end for at in accepted) <= limit


def test_terminating_pods_and_granted_evictions_do_not_count_as_healthy() -> None:
    first, second, third = pods(3)
    limit = BudgetLimit(max_unavailable=1)
    assert assess_web(limit, [first._replace(terminating=True), second, third]).allowed == 0
    assert assess_web(limit, [first, second, third], {first.name: NOON}).allowed == 0
    assert assess_web(limit, [first._replace(ready=False), second, third]).allowed == 0


def test_a_budget_over_pods_of_which_none_is_expected_allows_nothing() -> None:
    alone = [CoveredPod("alone", ready=True)]
    for limit in (BudgetLimit(max_unavailable=1), BudgetLimit(min_available="50%")):
        found = assess(limit, alone, {}, {}, NOON)
        assert isinstance(found, BudgetAssessment)
        assert (found.expected, found.current_healthy, found.allowed) == (0, 1, 0)


@pytest.mark.parametrize(
    "controllers",
    [
        {"sub": OwnerController("sub", "ReplicaSet", 3, "web"), "web": OwnerController("web", "Rollout", 9)},
        {"sub": OwnerController("sub", "ReplicaSet", 3, "gone")},
        {"sub": OwnerController("sub", "ReplicaSet", 3), "": OwnerController("", "Deployment", 9)},
        {"sub": OwnerController("sub", "StatefulSet", 3, "web"), "web": OwnerController("web", "Deployment", 9)},
    ],
    ids=["rollout", "unknown owner", "no owner", "not a replica set"],
)
def test_only_the_deployment_of_a_replica_set_counts_in_its_place(controllers: dict[str, OwnerController]) -> None:
    assert expected_pods([CoveredPod("a", controller_uid="sub")], controllers) == 3


def test_a_limit_above_the_number_of_pods_requires_none() -> None:
    assert BudgetLimit(max_unavailable=5).desired_healthy(3) == 0
    assert scaled_value("3", 100) == 3
    assert not BudgetLimit(min_available="3").follows_scale
    assert not BudgetLimit(min_available=3).follows_scale


def test_fewer_healthy_pods_than_required_allow_nothing() -> None:
    assert assess_web(BudgetLimit(min_available=5), pods(3)).allowed == 0


def test_more_disruptions_than_the_rate_allows_leave_none() -> None:
    """The rate may have been lowered since."""
    rate = RateWindow(1, HOUR, (NOON - HOUR / 2, NOON - HOUR / 4, NOON))
    assert rate.remaining(NOON) == 0
    assert rate.next_allowed_at(NOON) == NOON + HOUR


def test_a_grant_is_dropped_with_its_pod() -> None:
    ending = CoveredPod("web-1", ready=True, terminating=True, controller_uid="rs")
    covered = [*pods(1), ending]
    found = assess_web(BudgetLimit(min_available=1), covered, {"web-0": NOON, "web-1": NOON, "web-2": NOON})
    assert found.disrupted == {"web-0": NOON}
