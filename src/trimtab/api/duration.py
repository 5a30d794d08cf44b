"""Durations as written in Trimtab's kinds: `90s`, `1h30m`, `2d`."""

import re
from datetime import timedelta

_ANY = r"([0-9]+(\.[0-9]+)?(ms|s|m|h|d))"
_SOME = r"(([0-9]*[1-9][0-9]*(\.[0-9]+)?|[0-9]+\.[0-9]*[1-9][0-9]*)(ms|s|m|h|d))"
DURATION = f"^{_ANY}*{_SOME}{_ANY}*$"
"""The regular expression of `is_duration` for schemas: at least one of the parts is not zero."""
_PART = re.compile(r"(?<![0-9])([0-9]++(?:\.[0-9]++)?)(ms|s|m|h|d)")
_WHOLE = re.compile(r"(?:[0-9]++(?:\.[0-9]++)?(?:ms|s|m|h|d))+\Z")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = timedelta(days=36500)
"""A limit that can still be added to any datetime without overflow."""


def duration(text: str) -> timedelta:
    """The duration; invalid text counts as zero, because admission has rejected it before."""
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return timedelta(seconds=min(seconds, _LONGEST.total_seconds()))


def is_duration(text: str) -> bool:
    """Whether the text is a valid duration greater than zero."""
    return _WHOLE.match(text) is not None and duration(text) > timedelta()


def told(length: timedelta) -> str:
    """The duration as written in Trimtab's kinds: `1h30m` rather than 1:30:00."""
    rest, parts = round(length.total_seconds() * 1000), []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"
