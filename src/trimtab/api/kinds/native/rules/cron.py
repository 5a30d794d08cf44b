"""Checks the five fields of a cron schedule, with the error texts of the parser that Kubernetes uses (robfig/cron)."""

import re

from trimtab.api.limits import MAX_SCHEDULE_LENGTH

_MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DESCRIPTORS = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
_EVERY = re.compile(r"@every (\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+\Z")


def _parse_number(text: str, names: dict[str, int]) -> int | str:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"\d{1,9}", text):
        return f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
    return int(text)


def _range_error(part: str, low: int, high: int, names: dict[str, int]) -> str:
    span, slash, step = part.partition("/")
    if "/" in step:
        return f"too many slashes: {part}"
    first, dash, last = span.partition("-")
    if "-" in last:
        return f"too many hyphens: {part}"
    start: int | str = low if first in ("*", "?") else _parse_number(first, names)
    if isinstance(start, str):
        return start
    end: int | str = high if first in ("*", "?") or (slash and not dash) else start
    if dash:
        end = _parse_number(last, names)
    if isinstance(end, str):
        return end
    every = _parse_number(step, {}) if slash else 1
    if isinstance(every, str):
        return every
    if start < low:
        return f"beginning of range ({start}) below minimum ({low}): {part}"
    if end > high:
        return f"end of range ({end}) above maximum ({high}): {part}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {part}"
    return f"step of range should be a positive number: {part}" if every == 0 else ""


def without_time_zone(schedule: str) -> str:
    """The schedule without the time zone that it may begin with (`TZ=UTC 0 * * * *`)."""
    zone, _, rest = schedule.partition(" ")
    return rest.strip() if zone.startswith(("TZ=", "CRON_TZ=")) else schedule


def schedule_error(schedule: str) -> str:
    """The parse error of the schedule; empty when it is valid."""
    if len(schedule) > MAX_SCHEDULE_LENGTH:
        return f"the schedule is longer than {MAX_SCHEDULE_LENGTH} characters"
    if schedule.startswith("@"):
        known = schedule in _DESCRIPTORS or _EVERY.match(schedule)
        return "" if known else f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for text, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in text.split(","):
            if found := _range_error(part, low, high, names):
                return found
    return ""
