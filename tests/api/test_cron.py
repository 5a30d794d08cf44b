"""Schedules in cron's notation."""

from datetime import UTC, datetime
from itertools import islice

import pytest

from trimtab.api.cron import check_timetable, next_time, times

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_times_come_one_after_the_other_and_never_the_moment_itself() -> None:
    assert [t.hour for t in islice(times("0 * * * *", "", NOON), 3)] == [13, 14, 15]


def test_a_schedule_means_the_clock_on_the_wall_of_its_zone() -> None:
    """On 29 March 2026 the clocks of Berlin go forward: three in the morning comes an hour sooner for UTC."""
    nights = [t.strftime("%d %H:%M") for t in islice(times("0 3 * * *", "Europe/Berlin", NOON.replace(day=27)), 2)]
    assert nights == ["28 02:00", "29 01:00"]


@pytest.mark.parametrize(("schedule", "zone"), [("nonsense", ""), ("0 3 * * *", "Mars/Olympus"), ("0 0 30 2 *", "")])
def test_what_nobody_can_read_or_never_comes_has_no_times(schedule: str, zone: str) -> None:
    assert next_time(schedule, zone, NOON) is None


def test_a_timetable_is_refused_with_the_field_that_is_wrong() -> None:
    assert [cause.field for cause in check_timetable("0 3 * *", "Mars/Olympus", "spec")] == [
        "spec.schedule",
        "spec.timeZone",
    ]
    assert list(check_timetable("0 3 * * *", "", "spec")) == []
