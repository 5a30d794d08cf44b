from trimtab.stories.expectation_checks import DEFAULT_WITHIN, TrackedExpectation
from trimtab.stories.story import Expectation

STEPS = {"drain", "end"}


def test_expectation_applies_from_its_start_until_it_is_met() -> None:
    tracked = TrackedExpectation(Expectation(that="exists(Cluster/a)"), 5.0, STEPS)
    assert [tracked.applies(now) for now in (4.0, 5.0, 500.0)] == [False, True, True]
    assert (tracked.is_pending, tracked.deadline) == (True, 5.0 + DEFAULT_WITHIN)
    tracked.is_met = True
    assert (tracked.is_pending, tracked.applies(6.0)) == (False, False)


def test_period_starts_and_ends_with_named_steps() -> None:
    tracked = TrackedExpectation(Expectation(never="exists(Cluster/a)", start="drain", until="end"), 0.0, STEPS)
    assert not tracked.applies(3.0)
    tracked.step_reached("drain", 3.0)
    tracked.step_reached("end", 8.0)
    assert [tracked.applies(now) for now in (2.0, 3.0, 8.0, 9.0)] == [False, True, True, False]


def test_missed_deadline_is_noticed_after_the_end_of_the_period() -> None:
    tracked = TrackedExpectation(Expectation(that="exists(Cluster/a)", until="10s", within="30s"), 0.0, STEPS)
    assert (tracked.deadline, tracked.applies(11.0)) == (10.0, True)
