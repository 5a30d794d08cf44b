"""Cron schedules in a time zone: their run times and their validation."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from trimtab.api.duration import parse_duration
from trimtab.api.field_errors import invalid
from trimtab.api.limits import MAX_SCHEDULE_LENGTH
from trimtab.errors import Cause

_FIELD_COUNT = 5
_EVERY = "@every "
_NAMED_SCHEDULES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_ANY_DATE = datetime(2000, 1, 1, tzinfo=UTC)


def times_after(schedule: str, zone: str, after: datetime) -> Iterator[datetime]:
    """The run times strictly after a time; empty when the schedule or the zone is invalid."""
    if schedule.startswith(_EVERY):
        yield from _times_at_interval(parse_duration(schedule.removeprefix(_EVERY)), after)
        return
    try:
        for moment in CronSim(_standard(schedule[:MAX_SCHEDULE_LENGTH]), after.astimezone(ZoneInfo(zone or "UTC"))):
            yield moment.astimezone(after.tzinfo)
    except (CronSimError, KeyError, ValueError, OSError):
        return


def _times_at_interval(interval: timedelta, after: datetime) -> Iterator[datetime]:
    """Times at a constant interval of at least a second."""
    interval = max(interval, timedelta(seconds=1))
    moment = after.replace(microsecond=0)
    while True:
        moment += interval
        yield moment


def _standard(schedule: str) -> str:
    """The schedule in five fields, without the names and the `?` that Kubernetes accepts as well."""
    schedule = _NAMED_SCHEDULES.get(schedule, schedule)
    return " ".join("*" + field[1:] if field.startswith("?") else field for field in schedule.split())


def next_time(schedule: str, zone: str, after: datetime) -> datetime | None:
    return next(times_after(schedule, zone, after), None)


def is_time_zone(name: str) -> bool:
    """Whether the database of time zones has this name."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def check_schedule(schedule: str, zone: str, field: str) -> Iterator[Cause]:
    if not _is_cron(schedule):
        yield invalid(f"{field}.schedule", schedule, "must be a cron schedule with five fields")
    if not is_time_zone(zone or "UTC"):
        yield invalid(f"{field}.timeZone", zone, "must be a time zone such as Europe/Berlin")


def _is_cron(schedule: str) -> bool:
    if len(schedule) > MAX_SCHEDULE_LENGTH:
        return False
    try:
        CronSim(_standard(schedule), _ANY_DATE)
    except CronSimError:
        return False
    return len(schedule.split()) == _FIELD_COUNT
