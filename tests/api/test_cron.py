"""Cron schedules: run times and validation."""

from datetime import UTC, datetime
from itertools import islice

import pytest

from trimtab.api.cron import check_schedule, next_time, times_after

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_run_times_are_ordered_and_exclude_the_start() -> None:
    assert [t.hour for t in islice(times_after("0 * * * *", "", NOON), 3)] == [13, 14, 15]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [("@hourly", "01 13:00"), ("@daily", "02 00:00"), ("@every 1h30m", "01 13:30"), ("0 0 ? * ?", "02 00:00")],
)
def test_named_schedules_and_intervals_have_run_times(schedule: str, expected: str) -> None:
    first = next_time(schedule, "", NOON)
    assert first is not None
    assert first.strftime("%d %H:%M") == expected


def test_schedule_follows_local_time_across_daylight_saving() -> None:
    """On 29 March 2026 the clocks in Berlin go forward, so 03:00 local time is an hour earlier in UTC."""
    nights = [
        t.strftime("%d %H:%M") for t in islice(times_after("0 3 * * *", "Europe/Berlin", NOON.replace(day=27)), 2)
    ]
    assert nights == ["28 02:00", "29 01:00"]


@pytest.mark.parametrize(("schedule", "zone"), [("nonsense", ""), ("0 3 * * *", "Mars/Olympus"), ("0 0 30 2 *", "")])
def test_invalid_schedules_and_impossible_dates_have_no_run_times(schedule: str, zone: str) -> None:
    assert next_time(schedule, zone, NOON) is None


def test_invalid_schedule_and_zone_are_rejected_with_the_field() -> None:
    assert [cause.field for cause in check_schedule("0 3 * *", "Mars/Olympus", "spec")] == [
        "spec.schedule",
        "spec.timeZone",
    ]
    assert list(check_schedule("0 3 * * *", "", "spec")) == []


def test_long_schedule_is_invalid() -> None:
    long = "1," * 100_000 + "1 * * * *"
    assert [cause.field for cause in check_schedule(long, "", "spec")] == ["spec.schedule"]
    assert next_time(long, "", datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_a_question_mark_means_every_value() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert next_time("*/5 * * * ?", "", moment) == next_time("*/5 * * * *", "", moment)
    assert list(check_schedule("0 12 ? * *", "", "spec")) == []
