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


def test_a_percentage_is_rounded_up() -> None:
    assert scaled("34%", 3) == 2
    assert scaled(2, 100) == 2


def test_max_unavailable_leaves_the_rest_of_what_the_controller_wants() -> None:
    assert strength(Limit(max_unavailable=1), pods(3)).allowed == 1


def test_the_deployment_above_two_replica_sets_is_counted_once() -> None:
    controllers = {
        "old": Controller("old", "ReplicaSet", 2, "web"),
        "new": Controller("new", "ReplicaSet", 8, "web"),
        "web": Controller("web", "Deployment", 10),
    }
    covered = [CoveredPod("a", controller_uid="old"), CoveredPod("b", controller_uid="new")]
    found = assess(Limit(min_available="50%"), covered, controllers, {}, NOON)
    assert isinstance(found, Strength)
    assert (found.expected, found.desired_healthy) == (10, 5)


def test_a_pod_whose_controller_is_missing_closes_the_budget() -> None:
    assert isinstance(assess(Limit(max_unavailable=1), [CoveredPod("a", controller_uid="x")], {}, {}, NOON), Unknown)


def test_a_granted_disruption_counts_until_the_deadline_and_is_forgotten_after_it() -> None:
    for age, allowed, kept in ((119, 0, 1), (120, 1, 1), (121, 1, 0)):
        granted = {"web-0": NOON - timedelta(seconds=age)}
        found = strength(Limit(max_unavailable=1), pods(3), granted)
        assert (found.allowed, len(found.disrupted)) == (allowed, kept)


def test_a_rate_tells_exactly_when_the_next_one_is_allowed() -> None:
    rate = Rate(2, HOUR).spent(NOON).spent(NOON + timedelta(minutes=10))
    assert rate.left(NOON + timedelta(minutes=59)) == 0
    assert rate.next_allowed(NOON + timedelta(minutes=59)) == NOON + HOUR
    assert rate.left(NOON + HOUR) == 1


def test_a_clock_that_steps_back_opens_no_window() -> None:
    rate = Rate(1, HOUR).spent(NOON)
    back = NOON - timedelta(minutes=5)
    assert rate.left(back) == 0
    assert rate.next_allowed(back) == NOON + HOUR


def test_what_happens_after_a_clock_stepped_back_counts_until_the_clock_is_right_again() -> None:
    rate = Rate(2, HOUR).spent(NOON).spent(NOON - timedelta(minutes=50))
    assert rate.left(NOON + timedelta(minutes=15)) == 0


@given(st.integers(1, 4), st.lists(st.integers(0, 300), max_size=40))
def test_no_window_ever_holds_more_than_the_rate_allows(limit: int, steps: list[int]) -> None:
    rate, now, accepted = Rate(limit, timedelta(seconds=500)), NOON, []
    for step in steps:
        now += timedelta(seconds=step)
        if rate.left(now):
            rate = rate.spent(now)
            accepted.append(now)
    for end in accepted:
        assert sum(end - timedelta(seconds=500) < at <= end for at in accepted) <= limit
