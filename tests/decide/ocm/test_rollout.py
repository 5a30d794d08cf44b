from datetime import timedelta

import pytest
from views import NOON

from trimtab.api.kinds.ocm_work import (
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
    TIMED_OUT,
    RolloutGroup,
    RolloutState,
    parse_seconds,
    plan_rollout,
    resolve_share,
    rollout_groups,
)

CANARY = RolloutGroup("canary", 0, ("c1",))
REST = RolloutGroup("", 1, ("c2", "c3", "c4"))
DONE = RolloutState(SUCCEEDED, NOON - timedelta(hours=1))


def progressive(**fields: object) -> RolloutStrategy:
    return RolloutStrategy(type="Progressive", progressive=RolloutProgressive(progress_deadline="None", **fields))


def test_strategy_all_applies_all_clusters_at_once() -> None:
    step = plan_rollout([CANARY, REST], {"c1": DONE}, RolloutStrategy(), NOON)
    assert step.apply == ("c2", "c3", "c4")
    assert not step.done


def test_a_progressive_rollout_fills_its_slots_in_the_order_of_names() -> None:
    standings = {"c1": DONE, "c2": RolloutState(PROGRESSING, NOON)}
    assert plan_rollout([CANARY, REST], standings, progressive(max_concurrency=2), NOON).apply == ("c3",)
    assert plan_rollout([CANARY, REST], standings, progressive(max_concurrency="50%"), NOON).apply == ("c3",)
    assert plan_rollout([CANARY, REST], standings, progressive(), NOON).apply == ("c3", "c4")


def test_too_many_failures_stop_clusters_that_have_not_started() -> None:
    standings = {"c1": RolloutState(FAILED, NOON)}
    assert plan_rollout([CANARY, REST], standings, progressive(max_concurrency=2), NOON).apply == ()
    assert plan_rollout([CANARY, REST], standings, progressive(max_concurrency=2, max_failures=1), NOON).apply == (
        "c2",
    )


def test_a_failed_cluster_holds_its_slot_until_its_deadline() -> None:
    strategy = RolloutStrategy(
        type="Progressive", progressive=RolloutProgressive(progress_deadline="5m", max_concurrency=2, max_failures=1)
    )
    states = {"c1": RolloutState(FAILED, NOON), "c2": RolloutState(PROGRESSING, NOON)}
    step = plan_rollout([CANARY, REST], states, strategy, NOON)
    assert (step.apply, step.recheck_at) == ((), NOON + timedelta(minutes=5))
    later = NOON + timedelta(minutes=5)
    states = {"c1": RolloutState(FAILED, NOON), "c2": RolloutState(PROGRESSING, later)}
    assert plan_rollout([CANARY, REST], states, strategy, later).apply == ("c3",)


def test_a_share_of_tolerated_failures_counts_the_mandatory_clusters_too() -> None:
    first = (MandatoryDecisionGroup(group_name="canary"),)
    strategy = progressive(mandatory_decision_groups=first, max_failures="50%", max_concurrency=3)
    states = {"c1": DONE, "c2": RolloutState(FAILED, NOON), "c3": RolloutState(FAILED, NOON)}
    assert plan_rollout([CANARY, REST], states, strategy, NOON).apply == ("c4",)


@pytest.mark.parametrize("status", [FAILED, TIMED_OUT, PROGRESSING])
def test_a_rollout_is_done_only_when_every_cluster_has_succeeded(status: str) -> None:
    strategy = progressive(max_failures=1)
    states = {"c1": RolloutState(status, NOON), "c2": DONE, "c3": DONE, "c4": DONE}
    assert not plan_rollout([CANARY, REST], states, strategy, NOON).done
    assert plan_rollout([CANARY, REST], {**states, "c1": DONE}, strategy, NOON).done


def test_mandatory_groups_go_first_and_may_not_fail() -> None:
    first = (MandatoryDecisionGroup(group_name="canary"),)
    strategy = progressive(mandatory_decision_groups=first, max_failures="100%")
    assert plan_rollout([CANARY, REST], {}, strategy, NOON).apply == ("c1",)
    assert plan_rollout([CANARY, REST], {"c1": RolloutState(FAILED, NOON)}, strategy, NOON).apply == ()
    assert plan_rollout([CANARY, REST], {"c1": DONE}, strategy, NOON).apply == ("c2", "c3", "c4")


def test_per_group_rollout_waits_for_the_whole_group() -> None:
    strategy = RolloutStrategy(
        type="ProgressivePerGroup", progressive_per_group=RolloutProgressivePerGroup(progress_deadline="None")
    )
    assert plan_rollout([CANARY, REST], {}, strategy, NOON).apply == ("c1",)
    assert plan_rollout([CANARY, REST], {"c1": RolloutState(PROGRESSING, NOON)}, strategy, NOON).apply == ()
    assert plan_rollout([CANARY, REST], {"c1": DONE}, strategy, NOON).apply == ("c2", "c3", "c4")


def test_clusters_that_join_a_group_are_applied_although_others_of_it_failed() -> None:
    strategy = RolloutStrategy(
        type="ProgressivePerGroup", progressive_per_group=RolloutProgressivePerGroup(progress_deadline="None")
    )
    last = RolloutGroup("", 2, ("c5",))
    states = {"c1": DONE, "c2": RolloutState(FAILED, NOON), "c3": DONE}
    assert plan_rollout([CANARY, REST, last], states, strategy, NOON).apply == ("c4",)
    assert plan_rollout([CANARY, REST, last], {**states, "c4": DONE}, strategy, NOON).apply == ()


def test_a_success_frees_its_slot_after_the_soak_time() -> None:
    strategy = progressive(max_concurrency=1, min_success_time="10m")
    young = {"c1": RolloutState(SUCCEEDED, NOON - timedelta(minutes=4))}
    step = plan_rollout([CANARY, REST], young, strategy, NOON)
    assert step.apply == ()
    assert step.recheck_at == NOON + timedelta(minutes=6)
    assert plan_rollout([CANARY], young, strategy, NOON).done
    assert plan_rollout([CANARY, REST], young, strategy, NOON + timedelta(minutes=6)).apply == ("c2",)


def test_a_cluster_past_its_deadline_times_out() -> None:
    strategy = RolloutStrategy(all=RolloutAll(progress_deadline="5m"))
    slow = {"c1": RolloutState(PROGRESSING, NOON - timedelta(minutes=3))}
    assert plan_rollout([CANARY], slow, strategy, NOON).recheck_at == NOON + timedelta(minutes=2)
    assert not plan_rollout([CANARY], slow, strategy, NOON).done
    step = plan_rollout([CANARY], slow, strategy, NOON + timedelta(minutes=2))
    assert (step.apply, step.done) == ((), False)


def test_a_timed_out_cluster_counts_as_a_failure_of_a_progressive_rollout() -> None:
    strategy = RolloutStrategy(
        type="Progressive", progressive=RolloutProgressive(max_concurrency=1, progress_deadline="5m")
    )
    slow = {"c1": RolloutState(PROGRESSING, NOON - timedelta(minutes=5))}
    assert plan_rollout([CANARY, REST], slow, strategy, NOON).apply == ()
    assert plan_rollout([CANARY, REST], {"c1": RolloutState(SUCCEEDED, NOON)}, strategy, NOON).apply == ("c2",)


@pytest.mark.parametrize(("text", "found"), [("2h", 7200), ("90m", 5400), ("360s", 360), ("None", None), ("0", 0)])
def test_durations_are_parsed(text: str, found: float | None) -> None:
    assert parse_seconds(text) == found


@pytest.mark.parametrize(
    ("wanted", "found"), [(3, 3), ("25%", 3), ("100%", 10), (0, None), (11, None), (None, None), ("odd", None)]
)
def test_shares_are_numbers_or_percentages_rounded_up(wanted: object, found: int | None) -> None:
    assert resolve_share(wanted, 10) == found  # type: ignore[arg-type]


def test_pages_of_one_group_are_joined() -> None:
    pages = iter([("", "1", ["c2"]), ("canary", "0", ["c1"]), ("", "1", ["c3"])])
    assert rollout_groups(pages) == [RolloutGroup("canary", 0, ("c1",)), RolloutGroup("", 1, ("c2", "c3"))]
