"""The page of a workload: its timeline says once what many clusters report together."""

from datetime import UTC, datetime, timedelta

from console.fake_console import NOW, fill, new_console
from trimtab.console.facts import EventFacts
from trimtab.console.page import PageContext
from trimtab.console.pages.workload import (
    EVENT_TITLES,
    PLACED_EVENT,
    event_text,
    timeline_of,
    without_repeated_entries,
)

AT = datetime(2026, 11, 16, 16, 14, 53, tzinfo=UTC)


def test_timeline_says_once_what_is_reported_several_times_in_a_second() -> None:
    entries = [
        {
            "at": AT + timedelta(milliseconds=number),
            "state": "wait",
            "title": "SyncFailed",
            "text": f"in member{number}",
        }
        for number in (1, 2, 3)
    ]
    later = {"at": AT + timedelta(seconds=5), "state": "wait", "title": "SyncFailed", "text": "in member1"}
    shown = list(without_repeated_entries([*entries, entries[0], later]))
    assert [entry["text"] for entry in shown] == ["in member1 (and 2 more like this)", "in member1"]


def test_timeline_uses_the_words_of_the_pages_and_says_where_a_workload_was_placed() -> None:
    placed = EventFacts(
        at=AT,
        reason=PLACED_EVENT,
        message="Binding has been scheduled successfully. Result: {m2:3, m1:1}",
    )
    assert (EVENT_TITLES[placed.reason], event_text(placed, AT)) == ("Placed", "m1 1, m2 3")
    failed = EventFacts(at=AT, reason="MoveBlocked", message="Drain: budget web: spent until 2026-11-16T17:00:00Z")
    assert event_text(failed, AT) == "drain: budget web: spent until 17:00:00"


def test_timeline_has_no_moves_for_users_who_may_not_list_them() -> None:
    console = new_console()
    fill(console)
    context = PageContext(console.model, NOW)
    found, binding = (known["shop/Deployment/web"] for known in (console.model.workloads, console.model.bindings))
    assert [entry["title"] for entry in timeline_of(context, found, binding)] == ["Move begins: rebalance"]
    blind = context._replace(visibility=context.visibility._replace(moves=frozenset()))
    assert timeline_of(blind, found, binding) == []
