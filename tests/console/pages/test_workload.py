"""The page of a workload: its timeline says once what many clusters report together."""

from datetime import UTC, datetime, timedelta

from trimtab.console.pages.workload import without_repeated_entries

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
