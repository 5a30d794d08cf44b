from datetime import timedelta

import pytest
from views import NOON

from trimtab.api.kinds.ocm import (
    MandatoryDecisionGroup,
    RolloutAll,
    RolloutProgressive,
    RolloutProgressivePerGroup,
    RolloutStrategy,
)
from trimtab.decide.ocm.rollout import (
    FAILED,
    PROGRESSING,
    SUCCEEDED,
    Batch,
    Standing,
    in_groups,
    plan,
    seconds,
    share,
)

CANARY = Batch("canary", 0, ("c1",))
REST = Batch("", 1, ("c2", "c3", "c4"))
DONE = Standing(SUCCEEDED, NOON - timedelta(hours=1))


def progressive(**fields: object) -> RolloutStrategy:
    return RolloutStrategy(type="Progressive", progressive=RolloutProgressive(progress_deadline="None", **fields))


def test_all_means_everybody_at_once() -> None:
    step = plan([CANARY, REST], {"c1": DONE}, RolloutStrategy(), NOON)
    assert step.apply == ("c2", "c3", "c4")
    assert not step.done


def test_a_progressive_rollout_fills_its_slots_in_the_order_of_names() -> None:
    standings = {"c1": DONE, "c2": Standing(PROGRESSING, NOON)}
    assert plan([CANARY, REST], standings, progressive(max_concurrency=2), NOON).apply == ("c3",)
    assert plan([CANARY, REST], standings, progressive(max_concurrency="50%"), NOON).apply == ("c3",)
    assert plan([CANARY, REST], standings, progressive(), NOON).apply == ("c3", "c4")


def test_too_many_failures_stop_what_has_not_begun() -> None:
    standings = {"c1": Standing(FAILED, NOON)}
    assert plan([CANARY, REST], standings, progressive(max_concurrency=2), NOON).apply == ()
    assert plan([CANARY, REST], standings, progressive(max_concurrency=2, max_failures=1), NOON).apply == ("c2", "c3")


def test_mandatory_groups_go_first_and_may_not_fail() -> None:
    first = (MandatoryDecisionGroup(group_name="canary"),)
    strategy = progressive(mandatory_decision_groups=first, max_failures="100%")
    assert plan([CANARY, REST], {}, strategy, NOON).apply == ("c1",)
    assert plan([CANARY, REST], {"c1": Standing(FAILED, NOON)}, strategy, NOON).apply == ()
    assert plan([CANARY, REST], {"c1": DONE}, strategy, NOON).apply == ("c2", "c3", "c4")


def test_group_by_group_waits_for_the_whole_group() -> None:
    strategy = RolloutStrategy(
        type="ProgressivePerGroup", progressive_per_group=RolloutProgressivePerGroup(progress_deadline="None")
    )
    assert plan([CANARY, REST], {}, strategy, NOON).apply == ("c1",)
    assert plan([CANARY, REST], {"c1": Standing(PROGRESSING, NOON)}, strategy, NOON).apply == ()
    assert plan([CANARY, REST], {"c1": DONE}, strategy, NOON).apply == ("c2", "c3", "c4")


def test_a_success_soaks_before_it_frees_its_slot() -> None:
    strategy = progressive(max_concurrency=1, min_success_time="10m")
    young = {"c1": Standing(SUCCEEDED, NOON - timedelta(minutes=4))}
    step = plan([CANARY, REST], young, strategy, NOON)
    assert step.apply == ()
    assert step.again_at == NOON + timedelta(minutes=6)
    assert plan([CANARY, REST], young, strategy, NOON + timedelta(minutes=6)).apply == ("c2",)


def test_a_cluster_that_is_too_slow_times_out() -> None:
    strategy = RolloutStrategy(all=RolloutAll(progress_deadline="5m"))
    slow = {"c1": Standing(PROGRESSING, NOON - timedelta(minutes=3))}
    assert plan([CANARY], slow, strategy, NOON).again_at == NOON + timedelta(minutes=2)
    step = plan([CANARY], slow, strategy, NOON + timedelta(minutes=2))
    assert step.timed_out == ("c1",)
    assert step.done


@pytest.mark.parametrize(("text", "found"), [("2h", 7200), ("90m", 5400), ("360s", 360), ("None", None), ("0", 0)])
def test_durations_are_read_as_people_write_them(text: str, found: float | None) -> None:
    assert seconds(text) == found


@pytest.mark.parametrize(
    ("wanted", "found"), [(3, 3), ("25%", 3), ("100%", 10), (0, None), (11, None), (None, None), ("odd", None)]
)
def test_shares_are_numbers_or_percentages_rounded_up(wanted: object, found: int | None) -> None:
    assert share(wanted, 10) == found  # type: ignore[arg-type]


def test_pages_of_one_group_are_one_group_again() -> None:
    pages = iter([("", "1", ["c2"]), ("canary", "0", ["c1"]), ("", "1", ["c3"])])
    assert in_groups(pages) == [Batch("canary", 0, ("c1",)), Batch("", 1, ("c2", "c3"))]
