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
from trimtab.decide.gate import (
    Availability,
    BudgetState,
    Transfer,
    admit,
    apply_transfers,
    budget_state,
    charge_budget,
    disruptions_within,
    surge_limit,
    time_in_refusal,
    transfers_between,
    windows_at,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


UNUSED = DisruptionBudgetStatus()


def budget(status: DisruptionBudgetStatus = UNUSED, **spec: Any) -> DisruptionBudget:
    return DisruptionBudget(metadata=Meta(name="b", namespace="demo"), spec=DisruptionBudgetSpec(**spec), status=status)


def disruptions_ago(*ago: timedelta) -> DisruptionBudgetStatus:
    recent = tuple(RecentDisruption(object="Deployment/web", at=NOON - past) for past in ago)
    return DisruptionBudgetStatus(rate=RateStatus(recent=recent))


def test_transfers_go_to_gaining_clusters_in_name_order() -> None:
    assert transfers_between({"a": 6, "b": 2}, {"b": 1, "c": 4, "d": 3}) == [
        Transfer("a", 6, (("c", 4), ("d", 2))),
        Transfer("b", 1, (("d", 1),)),
    ]


def test_an_object_without_replicas_is_transferred_as_a_whole() -> None:
    assert transfers_between({"a": 0, "b": 0}, {"b": 0, "c": 0}) == [Transfer("a", 0, (("c", 0),))]


def test_scaling_up_is_no_transfer() -> None:
    assert transfers_between({"a": 1}, {"a": 2, "b": 1}) == []


@pytest.mark.parametrize(
    ("passed", "result"),
    [
        ([], {"a": 4, "c": 1}),
        ([Transfer("a", 1, (("b", 1),))], {"a": 3, "b": 1, "c": 1}),
        ([Transfer("a", 4, (("b", 4),))], {"b": 4, "c": 1}),
    ],
)
def test_only_admitted_transfers_leave_and_additional_replicas_start_at_once(passed: Any, result: Any) -> None:
    # b replaces what leaves a; c is one additional replica
    assert apply_transfers({"a": 4}, {"b": 4, "c": 1}, passed) == result


def test_missing_replicas_refuse_a_move() -> None:
    state = budget_state(budget(min_available=3), Availability(desired=4, available=2), NOON)
    admitted = admit([Transfer("a", 1, (("b", 1),))], [state], NOON, replacement_first=True)
    assert admitted.transfers == ()
    assert admitted.refusal is not None
    assert (admitted.refusal.code, admitted.refusal.message) == (
        "NotEnoughAvailable",
        "budget b: 1 replica is already missing",
    )


@pytest.mark.parametrize("limit", [{"min_available": 4}, {"min_available": "100%"}, {"max_unavailable": 0}])
def test_a_move_with_replacement_first_needs_no_spare_replica(limit: Any) -> None:
    state = budget_state(budget(**limit), Availability(4, 4), NOON)
    assert state.disruptions_allowed(4) == 0
    assert admit([Transfer("a", 4, (("b", 4),))], [state], NOON, replacement_first=True).refusal is None
    assert admit([Transfer("a", 4, (("b", 4),))], [state], NOON, replacement_first=False).transfers == ()


def test_a_budget_with_surge_admits_a_replacement_while_replicas_are_missing() -> None:
    state = budget_state(budget(max_unavailable=0, surge="Allowed"), Availability(4, 3), NOON)
    assert admit([Transfer("a", 4, (("b", 4),))], [state], NOON, replacement_first=True).refusal is None
    assert admit([Transfer("a", 4, (("b", 4),))], [state], NOON, replacement_first=False).transfers == ()


def test_only_as_many_replicas_move_at_once_as_the_budget_allows() -> None:
    state = budget_state(budget(max_unavailable="25%"), Availability(10, 10), NOON)
    admitted = admit([Transfer("a", 5, (("b", 5),))], [state], NOON, replacement_first=False)
    assert admitted.transfers == (Transfer("a", 3, (("b", 3),)),)
    assert admitted.refusal is not None


def test_an_indivisible_share_moves_whole_or_not_at_all() -> None:
    state = budget_state(budget(max_unavailable=3), Availability(10, 10), NOON)
    admitted = admit([Transfer("a", 5, (("b", 5),))], [state], NOON, replacement_first=False, divisible=False)
    assert admitted.transfers == ()


def test_a_whole_share_that_a_budget_refuses_waits_for_no_earlier_move() -> None:
    states = [budget_state(budget(max_unavailable=n), Availability(10, 10), NOON) for n in (6, 3)]
    refusal = admit([Transfer("a", 5, ())], states, NOON, replacement_first=False, divisible=False).refusal
    assert refusal is not None
    assert refusal.code == "NotEnoughAvailable"
    assert "the 5 replicas in a leave together, and no more than 3 may become unavailable now" in refusal.message
    wanted = [Transfer("a", 2, ()), Transfer("b", 2, ())]
    rest = admit(wanted, states, NOON, replacement_first=False, divisible=False)
    assert rest.transfers == (wanted[0],)
    assert rest.refusal is not None
    assert rest.refusal.code == "WaitingForEarlierMoves"


def test_surge_limits_how_many_replicas_run_twice() -> None:
    admitted = admit([Transfer("a", 5, (("b", 5),))], [], NOON, replacement_first=True, surge=2)
    assert admitted.transfers == (Transfer("a", 2, (("b", 2),)),)


def test_the_rate_is_exact_over_any_period() -> None:
    limited = budget(
        disruptions_ago(timedelta(minutes=59), timedelta(minutes=10)), rate=DisruptionRate(disruptions=2, period="1h")
    )
    state = budget_state(limited, Availability(), NOON)
    assert (state.rate, state.next_at) == (0, NOON + timedelta(minutes=1))
    assert budget_state(limited, Availability(), NOON + timedelta(minutes=1)).rate == 1


def test_an_exhausted_rate_reports_when_the_next_move_is_allowed() -> None:
    limited = budget(disruptions_ago(timedelta(minutes=50)), rate=DisruptionRate(disruptions=3, period="1h"))
    state = budget_state(limited, Availability(), NOON)
    admitted = admit([Transfer("a", 1), Transfer("b", 1), Transfer("c", 1)], [state], NOON, replacement_first=True)
    assert [flow.source for flow in admitted.transfers] == ["a", "b"]
    assert admitted.refusal is not None
    assert admitted.refusal.until == NOON + timedelta(minutes=10)


def test_a_refusal_by_moves_in_flight_has_no_time() -> None:
    state = budget_state(
        budget(rate=DisruptionRate(disruptions=3, period="1h"), max_concurrent=1), Availability(), NOON
    )
    admitted = admit([Transfer("a", 1), Transfer("b", 1)], [state], NOON, replacement_first=True)
    assert admitted.refusal is not None
    assert admitted.refusal.until is None


def test_a_free_rate_waits_for_the_next_window() -> None:
    noonish = BudgetWindow(schedule="0 12 * * *", duration="1h")
    limited = budget(disruptions_ago(timedelta(0)), rate=DisruptionRate(disruptions=1, period="2h"), windows=(noonish,))
    assert budget_state(limited, Availability(), NOON).next_at == NOON + 24 * HOUR


def test_a_charge_is_recorded_and_expired_charges_are_dropped() -> None:
    limited = budget(disruptions_ago(2 * HOUR), rate=DisruptionRate(disruptions=1, period="1h"))
    charged = charge_budget(limited, [InFlightDisruption(object="Deployment/web", from_="a")], NOON)
    assert [entry.at for entry in charged.status.rate.recent] == [NOON]
    assert [entry.from_ for entry in charged.status.in_flight] == ["a"]
    assert budget_state(charged, Availability(), NOON).rate == 0


def test_moves_in_flight_count_against_max_concurrent() -> None:
    busy = DisruptionBudgetStatus(in_flight=(InFlightDisruption(object="Deployment/web", from_="a"),))
    state = budget_state(budget(busy, max_concurrent=1), Availability(), NOON)
    admitted = admit([Transfer("a", 1)], [state], NOON, replacement_first=True)
    assert admitted.refusal is not None
    assert admitted.refusal.code == "TooManyInFlight"


def test_all_budgets_must_admit_and_the_latest_time_is_reported() -> None:
    early = BudgetState("early", rate=0, next_at=NOON + HOUR)
    late = BudgetState("late", rate=0, next_at=NOON + 2 * HOUR)
    admitted = admit([Transfer("a", 1)], [early, late, BudgetState("open")], NOON, replacement_first=True)
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


def test_time_in_a_refusal_is_the_time_until_which_it_holds() -> None:
    closed = BudgetState("night", is_open=False, next_at=NOON).refusal(NOON, replacement_first=True)
    assert closed is not None
    assert time_in_refusal(f"1 cannot leave now: web: Drain: {closed.message}; and 3 more") == NOON
    assert time_in_refusal("no window is open") is None


def test_only_the_first_of_several_indivisible_shares_may_exceed_the_surge() -> None:
    wanted = [Transfer("a", 5, (("c", 5),)), Transfer("b", 5, (("d", 5),))]
    admitted = admit(wanted, [], NOON, replacement_first=True, surge=2, divisible=False)
    assert admitted.transfers == (wanted[0],)
    assert admitted.refusal is not None
    assert admitted.refusal.code == "WaitingForEarlierMoves"


def test_indivisible_shares_that_fit_the_surge_together_move_together() -> None:
    wanted = [Transfer("a", 2, (("c", 2),)), Transfer("b", 2, (("d", 2),))]
    assert admit(wanted, [], NOON, replacement_first=True, surge=4, divisible=False).transfers == tuple(wanted)
    assert admit(wanted, [], NOON, replacement_first=True, surge=3, divisible=False).transfers == (wanted[0],)


def test_a_move_that_takes_replicas_at_once_needs_one_to_spare() -> None:
    state = budget_state(budget(min_available=4), Availability(4, 4), NOON)
    admitted = admit([Transfer("a", 1, (("b", 1),))], [state], NOON, replacement_first=False)
    assert (admitted.transfers, admitted.refusal and admitted.refusal.code) == ((), "NotEnoughAvailable")


def test_no_more_moves_begin_than_the_strictest_budget_allows() -> None:
    wanted = [Transfer(name, 1, (("z", 1),)) for name in "abc"]
    states = [
        budget_state(budget(max_concurrent=2), Availability(9, 9), NOON),
        budget_state(budget(), Availability(9, 9), NOON),
    ]
    admitted = admit(wanted, states, NOON, replacement_first=True)
    assert admitted.transfers == tuple(wanted[:2])


def test_one_refusing_budget_of_several_is_enough() -> None:
    states = [budget_state(budget(max_concurrent=n), Availability(9, 9), NOON) for n in (0, 5)]
    assert admit([Transfer("a", 1, (("z", 1),))], states, NOON, replacement_first=True).transfers == ()


def test_replicas_that_one_move_takes_are_not_given_to_the_next() -> None:
    state = budget_state(budget(max_unavailable=2), Availability(9, 9), NOON)
    wanted = [Transfer("a", 1, (("z", 1),)), Transfer("b", 2, (("z", 2),))]
    admitted = admit(wanted, [state], NOON, replacement_first=False)
    assert [(transfer.source, transfer.replicas) for transfer in admitted.transfers] == [("a", 1), ("b", 1)]


def test_a_charge_keeps_the_earlier_disruptions_of_its_period() -> None:
    limited = budget(disruptions_ago(HOUR / 2), rate=DisruptionRate(disruptions=2, period="1h"))
    charged = charge_budget(limited, [InFlightDisruption(object="Deployment/web", from_="a")], NOON)
    assert charged.status.rate is not None
    assert [entry.at for entry in charged.status.rate.recent] == [NOON - HOUR / 2, NOON]
    assert charged.status.rate.in_window == 2
    assert budget_state(charged, Availability(), NOON).rate == 0


def test_a_disruption_counts_until_its_period_is_over() -> None:
    recent = (RecentDisruption(at=NOON - HOUR), RecentDisruption(at=NOON - HOUR + timedelta(microseconds=1)))
    assert disruptions_within(recent, HOUR, NOON) == recent[1:]


def test_a_charge_keeps_no_more_times_than_the_rate_counts() -> None:
    """The status is an object in the store: it does not grow with the moves that nobody could refuse."""
    limited = budget(rate=DisruptionRate(disruptions=2, period="1h"))
    moves = [InFlightDisruption(object=f"Deployment/web-{n}", from_="a") for n in range(5)]
    charged = charge_budget(limited, moves, NOON)
    assert charged.status.rate is not None
    assert (len(charged.status.rate.recent), charged.status.rate.in_window) == (2, 5)


@pytest.mark.parametrize(("limit", "total", "replicas"), [("10%", 3, 1), ("0%", 10, 1), (0, 10, 1), ("50%", 5, 3)])
def test_at_least_one_replica_may_run_twice(limit: Any, total: int, replicas: int) -> None:
    assert surge_limit(limit, total) == replicas


def test_a_closed_window_allows_no_move_whatever_else_is_free() -> None:
    assert BudgetState("b", rate=2, concurrent=3, is_open=False).moves_allowed == 0
    assert BudgetState("b", rate=2, concurrent=3).moves_allowed == 2
    assert BudgetState("b").moves_allowed is None


def test_replicas_that_two_clusters_give_up_are_replaced_once() -> None:
    """A cluster that only keeps or loses replicas replaces nothing."""
    assert transfers_between({"a": 2, "b": 2, "c": 3}, {"c": 3, "d": 4}) == [
        Transfer("a", 2, (("d", 2),)),
        Transfer("b", 2, (("d", 2),)),
    ]
    assert transfers_between({"a": 2, "b": 1}, {"b": 3}) == [Transfer("a", 2, (("b", 2),))]


@pytest.mark.parametrize(
    ("before", "after", "result"),
    [
        ({"a": 0}, {"a": 0, "b": 0}, {"a": 0, "b": 0}),
        ({"a": 0}, {"b": 0}, {"a": 0}),
        ({"a": 2}, {"a": 2, "b": 0}, {"a": 2, "b": 0}),
        ({"a": 2, "b": 1}, {"a": 1, "b": 3}, {"a": 2, "b": 2}),
    ],
    ids=["copy added", "copy moves", "share of nothing", "moved and added"],
)
def test_without_an_admitted_transfer_only_what_replaces_nothing_begins(before: Any, after: Any, result: Any) -> None:
    assert apply_transfers(before, after, []) == result


def test_a_cluster_that_keeps_a_share_of_nothing_stays_in_the_placement() -> None:
    assert apply_transfers({"a": 2}, {"a": 0, "b": 2}, [Transfer("a", 2, (("b", 2),))]) == {"a": 0, "b": 2}


def test_a_used_up_limit_admits_nothing_more() -> None:
    wanted = [Transfer("a", 2, (("z", 2),)), Transfer("b", 1, (("z", 1),))]
    admitted = admit(wanted, [], NOON, replacement_first=True, surge=2)
    assert admitted.transfers == (wanted[0],)
    assert admitted.refusal is not None


def test_copies_without_replicas_need_no_room_to_run_twice() -> None:
    wanted = [Transfer(name, 0, (("z", 0),)) for name in "ab"]
    assert admit(wanted, [], NOON, replacement_first=True, surge=1).transfers == tuple(wanted)


def test_missing_replicas_refuse_a_move_that_removes_first_even_where_surge_is_allowed() -> None:
    state = BudgetState("b", replicas=3, missing=1, surge=True)
    refusal = state.refusal(NOON, replacement_first=False)
    assert refusal is not None
    assert refusal.code == "NotEnoughAvailable"
    assert state.refusal(NOON, replacement_first=True) is None


def test_the_refusal_names_the_budget_that_allows_the_fewest_moves() -> None:
    states = [BudgetState("free"), BudgetState("wide", concurrent=3), BudgetState("narrow", rate=1)]
    admitted = admit([Transfer(name, 1) for name in "abcd"], states, NOON, replacement_first=True)
    assert len(admitted.transfers) == 1
    assert admitted.refusal is not None
    assert admitted.refusal.message.startswith("budget narrow ")


def test_a_refusal_that_time_does_not_lift_outweighs_those_with_a_time() -> None:
    states = [BudgetState("late", rate=0, next_at=NOON + HOUR), BudgetState("busy", concurrent=0)]
    refusal = admit([Transfer("a", 1)], states, NOON, replacement_first=True).refusal
    assert refusal is not None
    assert (refusal.code, refusal.until) == ("TooManyInFlight", None)


def test_an_overspent_budget_allows_nothing_and_no_negative_number() -> None:
    entries = tuple(InFlightDisruption(object="Deployment/web", from_=name) for name in "abc")
    overspent = budget(DisruptionBudgetStatus(in_flight=entries), max_concurrent=1, max_unavailable=1)
    state = budget_state(overspent, Availability(5, 2), NOON)
    assert (state.concurrent, state.replicas, state.missing) == (0, 0, 2)
    assert budget_state(overspent, Availability(5, 5), NOON).missing == 0


def test_time_is_reported_only_when_it_has_to_pass() -> None:
    always = budget(rate=DisruptionRate(disruptions=1, period="1h"))
    assert budget_state(always, Availability(), NOON).next_at is None
    never = budget(windows=(BudgetWindow(schedule="0 0 30 2 *", duration="1h"),))
    state = budget_state(never, Availability(), NOON)
    assert (state.is_open, state.next_at) == (False, None)


def test_a_window_that_never_opens_does_not_hide_the_next_opening() -> None:
    windows = (
        BudgetWindow(schedule="0 0 30 2 *", duration="1h"),
        BudgetWindow(schedule="0 13 * * *", duration="1h"),
    )
    assert windows_at(windows, NOON) == (False, NOON + HOUR)


def test_entries_without_a_time_count_for_no_rate() -> None:
    recent = (RecentDisruption(object="Deployment/web"), RecentDisruption(object="Deployment/web", at=NOON - HOUR / 2))
    limited = budget(
        DisruptionBudgetStatus(rate=RateStatus(recent=recent)), rate=DisruptionRate(disruptions=3, period="1h")
    )
    assert budget_state(limited, Availability(), NOON).rate == 2
    charged = charge_budget(limited, [InFlightDisruption(object="Deployment/web", from_="a")], NOON)
    assert charged.status.rate is not None
    assert [entry.at for entry in charged.status.rate.recent] == [NOON - HOUR / 2, NOON]
    assert disruptions_within(recent, HOUR, NOON) == recent[1:]


def test_a_charge_drops_disruptions_that_are_exactly_one_period_old() -> None:
    limited = budget(disruptions_ago(HOUR), rate=DisruptionRate(disruptions=3, period="1h"))
    charged = charge_budget(limited, [InFlightDisruption(object="Deployment/web", from_="a")], NOON)
    assert charged.status.rate is not None
    assert charged.status.rate.in_window == 1


def test_a_cluster_replaces_no_more_than_it_gains() -> None:
    assert transfers_between({"a": 4, "b": 1}, {"b": 3}) == [Transfer("a", 4, (("b", 2),))]
