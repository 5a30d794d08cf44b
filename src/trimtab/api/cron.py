"""Cron schedules in a time zone: their run times and their validation."""

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from trimtab.api.field_errors import invalid
from trimtab.api.limits import MAX_SCHEDULE_LENGTH
from trimtab.errors import Cause

_FIELD_COUNT = 5
_ANY_DATE = datetime(2000, 1, 1, tzinfo=UTC)


def times_after(schedule: str, zone: str, after: datetime) -> Iterator[datetime]:
    """The run times strictly after a time; empty when the schedule or the zone is invalid."""
    try:
        for moment in CronSim(_standard(schedule[:MAX_SCHEDULE_LENGTH]), after.astimezone(ZoneInfo(zone or "UTC"))):
            yield moment.astimezone(after.tzinfo)
    except (CronSimError, KeyError, ValueError, OSError):
        return


def _standard(schedule: str) -> str:
    """The schedule without `?`, which Kubernetes accepts in place of `*`."""
    return " ".join("*" + field[1:] if field.startswith("?") else field for field in schedule.split())


def next_time(schedule: str, zone: str, after: datetime) -> datetime | None:
    return next(times_after(schedule, zone, after), None)


def check_schedule(schedule: str, zone: str, field: str) -> Iterator[Cause]:
    if not _is_cron(schedule):
        yield invalid(f"{field}.schedule", schedule, "must be a cron schedule with five fields")
    try:
        ZoneInfo(zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield invalid(f"{field}.timeZone", zone, "must be a time zone such as Europe/Berlin")


def _is_cron(schedule: str) -> bool:
    if len(schedule) > MAX_SCHEDULE_LENGTH:
        return False
    try:
        CronSim(_standard(schedule), _ANY_DATE)
    except CronSimError:
        return False
    return len(schedule.split()) == _FIELD_COUNT
