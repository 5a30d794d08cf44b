from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from trimtab.decide.pods.budgets.budget import Controller, CoveredPod, Limit, Rate, Strength, Unknown, assess, scaled

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
WEB = {"rs": Controller("rs", "ReplicaSet", 3)}


def pods(count: int, *, ready: bool = True) -> list[CoveredPod]:
    return [CoveredPod(f"web-{i}", ready=ready, controller="ReplicaSet/web", controller_uid="rs") for i in range(count)]


def strength(limit: Limit, covered: list[CoveredPod], disrupted: dict[str, datetime] | None = None) -> Strength:
    found = assess(limit, covered, WEB, disrupted or {}, NOON)
    assert isinstance(found, Strength)
    return found


def test_percentage_is_rounded_up() -> None:
    assert scaled("34%", 3) == 2
    assert scaled(2, 100) == 2


def test_max_unavailable_counts_against_the_replicas_of_the_controller() -> None:
    assert strength(Limit(max_unavailable=1), pods(3)).allowed == 1


def test_deployment_above_two_replica_sets_counts_once() -> None:
    controllers = {
        "old": Controller("old", "ReplicaSet", 2, "web"),
        "new": Controller("new", "ReplicaSet", 8, "web"),
        "web": Controller("web", "Deployment", 10),
    }
    covered = [CoveredPod("a", controller_uid="old"), CoveredPod("b", controller_uid="new")]
    found = assess(Limit(min_available="50%"), covered, controllers, {}, NOON)
    assert isinstance(found, Strength)
    assert (found.expected, found.desired_healthy) == (10, 5)


def test_pod_without_known_controller_makes_the_budget_unknown() -> None:
    assert isinstance(assess(Limit(max_unavailable=1), [CoveredPod("a", controller_uid="x")], {}, {}, NOON), Unknown)


def test_granted_disruption_counts_until_the_deadline_and_is_dropped_after_it() -> None:
    for age, allowed, kept in ((119, 0, 1), (120, 1, 1), (121, 1, 0)):
        granted = {"web-0": NOON - timedelta(seconds=age)}
        found = strength(Limit(max_unavailable=1), pods(3), granted)
        assert (found.allowed, len(found.disrupted)) == (allowed, kept)


def test_rate_returns_exactly_when_the_next_disruption_is_allowed() -> None:
    rate = Rate(2, HOUR).spent(NOON).spent(NOON + timedelta(minutes=10))
    assert rate.left(NOON + timedelta(minutes=59)) == 0
    assert rate.next_allowed(NOON + timedelta(minutes=59)) == NOON + HOUR
    assert rate.left(NOON + HOUR) == 1


def test_clock_stepping_back_opens_no_window() -> None:
    rate = Rate(1, HOUR).spent(NOON)
    back = NOON - timedelta(minutes=5)
    assert rate.left(back) == 0
    assert rate.next_allowed(back) == NOON + HOUR


def test_disruptions_after_a_clock_step_back_count_until_the_clock_catches_up() -> None:
    rate = Rate(2, HOUR).spent(NOON).spent(NOON - timedelta(minutes=50))
    assert rate.left(NOON + timedelta(minutes=15)) == 0


@given(st.integers(1, 4), st.lists(st.integers(0, 300), max_size=40))
def test_no_window_ever_exceeds_the_rate(limit: int, steps: list[int]) -> None:
    rate, now, accepted = Rate(limit, timedelta(seconds=500)), NOON, []
    for step in steps:
        now += timedelta(seconds=step)
        if rate.left(now):
            rate = rate.spent(now)
            accepted.append(now)
    for end in accepted:
        assert sum(end - timedelta(seconds=500) < at <= end for at in accepted) <= limit
