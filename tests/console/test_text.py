"""How numbers, times and names are written on the pages."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from trimtab.console import text
from trimtab.console.text import DASH

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_names_cannot_leave_the_text_of_a_picture() -> None:
    assert text.esc('<a href="x">&\'') == "&lt;a href=&quot;x&quot;&gt;&amp;&#x27;"
    assert len(text.esc("x" * 1000)) == text.MAX_TEXT


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (-5, "0 s"),
        (59.9, "59 s"),
        (61, "1 min 01 s"),
        (599, "9 min 59 s"),
        (600, "10 min"),
        (3600, "1 h 00 min"),
        (172799, "47 h 59 min"),
        (172800, "2 days"),
    ],
)
def test_spans_get_coarser_as_they_get_longer(seconds: float, written: str) -> None:
    assert text.span(seconds) == written


def test_times_are_in_utc_and_have_a_date_only_on_another_day() -> None:
    at = datetime(2026, 1, 2, 13, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    assert text.clock_time(at) == text.day_time(at, NOON) == "11:00:05"
    assert text.day_time(at - timedelta(days=1), NOON) == "2026-01-01 11:00"
    assert text.iso(at) == "2026-01-02T11:00:05.000Z"
    assert [text.clock_time(None), text.day_time(None, NOON), text.ago(None, NOON)] == [DASH] * 3
    assert text.ago(NOON - timedelta(seconds=42), NOON) == "42 s"


def test_counts_and_shares() -> None:
    assert [text.one_decimal(value) for value in (2.0, 2.04, 2.06)] == ["2", "2", "2.1"]
    assert text.percent(0.125) == "12 %"
    assert [text.median(values) for values in ([], [3.0], [4.0, 1.0], [9.0, 1.0, 2.0])] == [None, 3.0, 2.5, 2.0]


def test_only_known_causes_have_a_style() -> None:
    assert text.cause_class("Drain") == "Drain"
    assert text.cause_class('Drain" onload="') == "Other"
    assert text.cause_text("ClusterFailover") == "failover"
    assert text.cause_text("Rebalance") == "rebalance"


def test_addresses_escape_every_segment() -> None:
    assert text.path_to("clusters", "a/../b?c") == "/console/clusters/a%2F..%2Fb%3Fc"
    assert text.workload_path("Deployment/shop/web") == "/console/workloads/Deployment/shop/web"
    assert text.cluster_path("m1") == "/console/clusters/m1"
    assert text.query_of([("cluster", "m1"), ("q", ""), ("at", "12:00 h")]) == "?cluster=m1&at=12:00+h"
    assert text.query_of([]) == ""


def test_filter_is_replaced_and_the_page_begins_again() -> None:
    assert text.replaced({"q": "web", "after": "x", "cluster": "m1"}, "cluster", "m2") == [
        ("q", "web"),
        ("cluster", "m2"),
    ]
    assert text.toggle_word("ready,lost", "lost") == "ready"
    assert text.toggle_word("ready", "lost") == "ready,lost"
    assert text.toggle_word("", "lost") == "lost"


def test_time_in_an_address_may_have_lost_its_plus() -> None:
    assert text.parse_time("2026-01-02T13:00:00 01:00") == NOON
    assert text.parse_time("2026-01-02T12:00:00") == NOON
    assert text.parse_time("yesterday") is None


def test_names_with_numbers_are_sorted_as_people_count() -> None:
    names = ["c-10", "c-9", "b-2", "c", "c-9a", "c-09"]
    assert sorted(names, key=text.natural_order) == ["b-2", "c", "c-9", "c-09", "c-9a", "c-10"]


def test_text_that_does_not_fit_ends_with_an_ellipsis() -> None:
    assert text.shortened("member1", 7) == "member1"
    assert text.shortened("member-one", 7) == "member\u2026"


def test_reasons_are_told_in_the_words_and_times_of_the_page() -> None:
    now = datetime(2026, 11, 17, 23, 45, tzinfo=UTC)
    stored = "Drain: budget careful: its rate is exhausted until 2026-11-18 00:43:02Z"
    assert text.reason_text(stored, now) == "drain: budget careful: its rate is exhausted until 00:43:02"
    assert text.reason_text(stored, now - timedelta(days=3)).endswith("until 2026-11-18 00:43:02")
    assert text.reason_text("cannot continue Drain: 0/3 clusters", now) == "drain cannot go on: 0/3 clusters"
    assert text.reason_text("ClusterFailover: budget b: 1 replica is already missing", now) == (
        "failover: budget b: 1 replica is already missing"
    )
    assert text.budget_reason("careful", "budget careful: no window is open", now) == "no window is open"


def test_missing_room_is_told_in_plain_words() -> None:
    stored = "failed to assign replicas: failed to scale up: Clusters available replicas {} are not enough to schedule."
    room = "the clusters that pass its filters have room for"
    assert text.reason_text(stored.format(0), NOON) == f"{room} no replica."
    assert text.reason_text(stored.format(1), NOON) == f"{room} 1 more replica, which is not enough."
    assert text.reason_text(stored.format(7), NOON) == f"{room} 7 more replicas, which is not enough."
