"""What leaves, and how much of it the budgets let go."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trimtab.api.kinds.disruption import (
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    InFlight,
    Rate,
    RateStatus,
    RecentDisruption,
    Window,
)
from trimtab.api.value import Meta
from trimtab.decide.gate import Flow, Footing, Gate, admit, applied, debited, flows, gate_of, windows_at

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


UNUSED = DisruptionBudgetStatus()


def budget(status: DisruptionBudgetStatus = UNUSED, **spec: Any) -> DisruptionBudget:
    return DisruptionBudget(metadata=Meta(name="b", namespace="demo"), spec=DisruptionBudgetSpec(**spec), status=status)


def spent(*ago: timedelta) -> DisruptionBudgetStatus:
    recent = tuple(RecentDisruption(object="Deployment/web", at=NOON - past) for past in ago)
    return DisruptionBudgetStatus(rate=RateStatus(recent=recent))


def test_what_one_cluster_gives_up_others_take_over_in_the_order_of_names() -> None:
    assert flows({"a": 6, "b": 2}, {"b": 1, "c": 4, "d": 3}) == [
        Flow("a", 6, (("c", 4), ("d", 2))),
        Flow("b", 1, (("d", 1),)),
    ]


def test_an_object_without_replicas_leaves_as_a_whole() -> None:
    assert flows({"a": 0, "b": 0}, {"b": 0, "c": 0}) == [Flow("a", 0, (("c", 0),))]


def test_more_replicas_are_no_move() -> None:
    assert flows({"a": 1}, {"a": 2, "b": 1}) == []


@pytest.mark.parametrize(
    ("passed", "result"),
    [
        ([], {"a": 4, "c": 1}),
        ([Flow("a", 1, (("b", 1),))], {"a": 3, "b": 1, "c": 1}),
        ([Flow("a", 4, (("b", 4),))], {"b": 4, "c": 1}),
    ],
)
def test_only_what_passed_leaves_and_what_nobody_gives_up_comes_at_once(passed: Any, result: Any) -> None:
    # b takes what a gives up; c is one replica more, which nobody gives up
    assert applied({"a": 4}, {"b": 4, "c": 1}, passed) == result


def test_replicas_that_are_missing_leave_nothing_to_spare() -> None:
    gate = gate_of(budget(min_available=3), Footing(desired=4, available=2), NOON)
    passage = admit([Flow("a", 1, (("b", 1),))], [gate], NOON, replacement_first=True)
    assert passage.flows == ()
    assert passage.refusal is not None
    assert (passage.refusal.code, passage.refusal.message) == (
        "NotEnoughAvailable",
        "budget b: 1 replicas are missing already",
    )


@pytest.mark.parametrize("limit", [{"min_available": 4}, {"min_available": "100%"}, {"max_unavailable": 0}])
def test_a_move_whose_replacement_is_ready_first_needs_no_replica_to_spare(limit: Any) -> None:
    gate = gate_of(budget(**limit), Footing(4, 4), NOON)
    assert gate.allowed(4) == 0
    assert admit([Flow("a", 4, (("b", 4),))], [gate], NOON, replacement_first=True).refusal is None
    assert admit([Flow("a", 4, (("b", 4),))], [gate], NOON, replacement_first=False).flows == ()


def test_a_budget_that_allows_surge_lets_the_replacement_start_although_replicas_are_missing() -> None:
    gate = gate_of(budget(max_unavailable=0, surge="Allowed"), Footing(4, 3), NOON)
    assert admit([Flow("a", 4, (("b", 4),))], [gate], NOON, replacement_first=True).refusal is None
    assert admit([Flow("a", 4, (("b", 4),))], [gate], NOON, replacement_first=False).flows == ()


def test_at_once_only_as_many_go_as_can_be_spared() -> None:
    gate = gate_of(budget(max_unavailable="25%"), Footing(10, 10), NOON)
    passage = admit([Flow("a", 5, (("b", 5),))], [gate], NOON, replacement_first=False)
    assert passage.flows == (Flow("a", 3, (("b", 3),)),)
    assert passage.refusal is not None


def test_a_share_that_cannot_be_cut_goes_whole_or_not_at_all() -> None:
    gate = gate_of(budget(max_unavailable=3), Footing(10, 10), NOON)
    passage = admit([Flow("a", 5, (("b", 5),))], [gate], NOON, replacement_first=False, divisible=False)
    assert passage.flows == ()


def test_surge_bounds_how_many_run_twice() -> None:
    passage = admit([Flow("a", 5, (("b", 5),))], [], NOON, replacement_first=True, surge=2)
    assert passage.flows == (Flow("a", 2, (("b", 2),)),)


def test_the_rate_is_exact_over_any_stretch_of_time() -> None:
    limited = budget(spent(timedelta(minutes=59), timedelta(minutes=10)), rate=Rate(disruptions=2, period="1h"))
    gate = gate_of(limited, Footing(), NOON)
    assert (gate.rate, gate.next_at) == (0, NOON + timedelta(minutes=1))
    assert gate_of(limited, Footing(), NOON + timedelta(minutes=1)).rate == 1


def test_what_follows_when_the_rate_is_used_up_has_its_time() -> None:
    limited = budget(spent(timedelta(minutes=50)), rate=Rate(disruptions=3, period="1h"))
    gate = gate_of(limited, Footing(), NOON)
    passage = admit([Flow("a", 1), Flow("b", 1), Flow("c", 1)], [gate], NOON, replacement_first=True)
    assert [flow.source for flow in passage.flows] == ["a", "b"]
    assert passage.refusal is not None
    assert passage.refusal.until == NOON + timedelta(minutes=10)


def test_moves_in_flight_have_no_time_at_which_the_next_follows() -> None:
    gate = gate_of(budget(rate=Rate(disruptions=3, period="1h"), max_concurrent=1), Footing(), NOON)
    passage = admit([Flow("a", 1), Flow("b", 1)], [gate], NOON, replacement_first=True)
    assert passage.refusal is not None
    assert passage.refusal.until is None


def test_a_rate_that_is_free_again_outside_the_windows_waits_for_the_next_one() -> None:
    noonish = Window(schedule="0 12 * * *", duration="1h")
    limited = budget(spent(timedelta(0)), rate=Rate(disruptions=1, period="2h"), windows=(noonish,))
    assert gate_of(limited, Footing(), NOON).next_at == NOON + 24 * HOUR


def test_a_charge_is_remembered_as_long_as_it_counts() -> None:
    limited = budget(spent(2 * HOUR), rate=Rate(disruptions=1, period="1h"))
    charged = debited(limited, [InFlight(object="Deployment/web", from_="a")], NOON)
    assert [entry.at for entry in charged.status.rate.recent] == [NOON]
    assert gate_of(charged, Footing(), NOON).rate == 0


def test_moves_in_flight_count_against_the_next() -> None:
    busy = DisruptionBudgetStatus(in_flight=(InFlight(object="Deployment/web", from_="a"),))
    gate = gate_of(budget(busy, max_concurrent=1), Footing(), NOON)
    passage = admit([Flow("a", 1)], [gate], NOON, replacement_first=True)
    assert passage.refusal is not None
    assert passage.refusal.code == "TooManyInFlight"


def test_all_budgets_must_allow_it_and_the_last_one_says_when() -> None:
    early = Gate("early", rate=0, next_at=NOON + HOUR)
    late = Gate("late", rate=0, next_at=NOON + 2 * HOUR)
    passage = admit([Flow("a", 1)], [early, late, Gate("open")], NOON, replacement_first=True)
    assert passage.refusal is not None
    assert passage.refusal.until == NOON + 2 * HOUR


def test_outside_its_windows_a_budget_is_closed() -> None:
    nightly = Window(schedule="0 2 * * *", duration="2h", time_zone="Europe/Berlin")
    opening = datetime(2026, 3, 3, 1, tzinfo=UTC)
    assert windows_at((nightly,), NOON) == (False, opening)
    assert windows_at((nightly,), opening) == (True, None)
    assert windows_at((nightly,), opening + 2 * HOUR - timedelta(seconds=1)) == (True, None)
    assert windows_at((nightly,), opening + 2 * HOUR)[0] is False
    assert windows_at((), NOON) == (True, None)


def test_any_open_window_will_do() -> None:
    windows = (Window(schedule="0 2 * * *", duration="1h"), Window(schedule="30 11 * * *", duration="45m"))
    assert windows_at(windows, NOON)[0] is True
    assert windows_at(windows, NOON + timedelta(minutes=15))[0] is False
