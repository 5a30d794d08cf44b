"""Transfers between placements, and how much of them the budgets admit."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trimtab.api.kinds.disruption import (
    BudgetWindow,
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    DisruptionRate,
    InFlightDisruption,
    RateStatus,
    RecentDisruption,
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


def test_transfers_go_to_gaining_clusters_in_name_order() -> None:
    assert flows({"a": 6, "b": 2}, {"b": 1, "c": 4, "d": 3}) == [
        Flow("a", 6, (("c", 4), ("d", 2))),
        Flow("b", 1, (("d", 1),)),
    ]


def test_an_object_without_replicas_is_transferred_as_a_whole() -> None:
    assert flows({"a": 0, "b": 0}, {"b": 0, "c": 0}) == [Flow("a", 0, (("c", 0),))]


def test_scaling_up_is_no_transfer() -> None:
    assert flows({"a": 1}, {"a": 2, "b": 1}) == []


@pytest.mark.parametrize(
    ("passed", "result"),
    [
        ([], {"a": 4, "c": 1}),
        ([Flow("a", 1, (("b", 1),))], {"a": 3, "b": 1, "c": 1}),
        ([Flow("a", 4, (("b", 4),))], {"b": 4, "c": 1}),
    ],
)
def test_only_admitted_transfers_leave_and_additional_replicas_start_at_once(passed: Any, result: Any) -> None:
    # b replaces what leaves a; c is one additional replica
    assert applied({"a": 4}, {"b": 4, "c": 1}, passed) == result


def test_missing_replicas_refuse_a_move() -> None:
    state = gate_of(budget(min_available=3), Footing(desired=4, available=2), NOON)
    admitted = admit([Flow("a", 1, (("b", 1),))], [state], NOON, replacement_first=True)
    assert admitted.flows == ()
    assert admitted.refusal is not None
    assert (admitted.refusal.code, admitted.refusal.message) == (
        "NotEnoughAvailable",
        "budget b: 1 replicas are missing already",
    )


@pytest.mark.parametrize("limit", [{"min_available": 4}, {"min_available": "100%"}, {"max_unavailable": 0}])
def test_a_move_with_replacement_first_needs_no_spare_replica(limit: Any) -> None:
    state = gate_of(budget(**limit), Footing(4, 4), NOON)
    assert state.allowed(4) == 0
    assert admit([Flow("a", 4, (("b", 4),))], [state], NOON, replacement_first=True).refusal is None
    assert admit([Flow("a", 4, (("b", 4),))], [state], NOON, replacement_first=False).flows == ()


def test_a_budget_with_surge_admits_a_replacement_while_replicas_are_missing() -> None:
    state = gate_of(budget(max_unavailable=0, surge="Allowed"), Footing(4, 3), NOON)
    assert admit([Flow("a", 4, (("b", 4),))], [state], NOON, replacement_first=True).refusal is None
    assert admit([Flow("a", 4, (("b", 4),))], [state], NOON, replacement_first=False).flows == ()


def test_only_as_many_replicas_move_at_once_as_the_budget_allows() -> None:
    state = gate_of(budget(max_unavailable="25%"), Footing(10, 10), NOON)
    admitted = admit([Flow("a", 5, (("b", 5),))], [state], NOON, replacement_first=False)
    assert admitted.flows == (Flow("a", 3, (("b", 3),)),)
    assert admitted.refusal is not None


def test_an_indivisible_share_moves_whole_or_not_at_all() -> None:
    state = gate_of(budget(max_unavailable=3), Footing(10, 10), NOON)
    admitted = admit([Flow("a", 5, (("b", 5),))], [state], NOON, replacement_first=False, divisible=False)
    assert admitted.flows == ()


def test_surge_limits_how_many_replicas_run_twice() -> None:
    admitted = admit([Flow("a", 5, (("b", 5),))], [], NOON, replacement_first=True, surge=2)
    assert admitted.flows == (Flow("a", 2, (("b", 2),)),)


def test_the_rate_is_exact_over_any_period() -> None:
    limited = budget(
        spent(timedelta(minutes=59), timedelta(minutes=10)), rate=DisruptionRate(disruptions=2, period="1h")
    )
    state = gate_of(limited, Footing(), NOON)
    assert (state.rate, state.next_at) == (0, NOON + timedelta(minutes=1))
    assert gate_of(limited, Footing(), NOON + timedelta(minutes=1)).rate == 1


def test_an_exhausted_rate_reports_when_the_next_move_is_allowed() -> None:
    limited = budget(spent(timedelta(minutes=50)), rate=DisruptionRate(disruptions=3, period="1h"))
    state = gate_of(limited, Footing(), NOON)
    admitted = admit([Flow("a", 1), Flow("b", 1), Flow("c", 1)], [state], NOON, replacement_first=True)
    assert [flow.source for flow in admitted.flows] == ["a", "b"]
    assert admitted.refusal is not None
    assert admitted.refusal.until == NOON + timedelta(minutes=10)


def test_a_refusal_by_moves_in_flight_has_no_time() -> None:
    state = gate_of(budget(rate=DisruptionRate(disruptions=3, period="1h"), max_concurrent=1), Footing(), NOON)
    admitted = admit([Flow("a", 1), Flow("b", 1)], [state], NOON, replacement_first=True)
    assert admitted.refusal is not None
    assert admitted.refusal.until is None


def test_a_free_rate_waits_for_the_next_window() -> None:
    noonish = BudgetWindow(schedule="0 12 * * *", duration="1h")
    limited = budget(spent(timedelta(0)), rate=DisruptionRate(disruptions=1, period="2h"), windows=(noonish,))
    assert gate_of(limited, Footing(), NOON).next_at == NOON + 24 * HOUR


def test_a_charge_is_recorded_and_expired_charges_are_dropped() -> None:
    limited = budget(spent(2 * HOUR), rate=DisruptionRate(disruptions=1, period="1h"))
    charged = debited(limited, [InFlightDisruption(object="Deployment/web", from_="a")], NOON)
    assert [entry.at for entry in charged.status.rate.recent] == [NOON]
    assert gate_of(charged, Footing(), NOON).rate == 0


def test_moves_in_flight_count_against_max_concurrent() -> None:
    busy = DisruptionBudgetStatus(in_flight=(InFlightDisruption(object="Deployment/web", from_="a"),))
    state = gate_of(budget(busy, max_concurrent=1), Footing(), NOON)
    admitted = admit([Flow("a", 1)], [state], NOON, replacement_first=True)
    assert admitted.refusal is not None
    assert admitted.refusal.code == "TooManyInFlight"


def test_all_budgets_must_admit_and_the_latest_time_is_reported() -> None:
    early = Gate("early", rate=0, next_at=NOON + HOUR)
    late = Gate("late", rate=0, next_at=NOON + 2 * HOUR)
    admitted = admit([Flow("a", 1)], [early, late, Gate("open")], NOON, replacement_first=True)
    assert admitted.refusal is not None
    assert admitted.refusal.until == NOON + 2 * HOUR


def test_outside_its_windows_a_budget_is_closed() -> None:
    nightly = BudgetWindow(schedule="0 2 * * *", duration="2h", time_zone="Europe/Berlin")
    opening = datetime(2026, 3, 3, 1, tzinfo=UTC)
    assert windows_at((nightly,), NOON) == (False, opening)
    assert windows_at((nightly,), opening) == (True, None)
    assert windows_at((nightly,), opening + 2 * HOUR - timedelta(seconds=1)) == (True, None)
    assert windows_at((nightly,), opening + 2 * HOUR)[0] is False
    assert windows_at((), NOON) == (True, None)


def test_one_open_window_is_enough() -> None:
    windows = (BudgetWindow(schedule="0 2 * * *", duration="1h"), BudgetWindow(schedule="30 11 * * *", duration="45m"))
    assert windows_at(windows, NOON)[0] is True
    assert windows_at(windows, NOON + timedelta(minutes=15))[0] is False
