"""Durations as written in Trimtab's kinds: `90s`, `1h30m`, `2d`."""

import re
from datetime import timedelta

_ANY_PART = r"([0-9]+(\.[0-9]+)?(ms|s|m|h|d))"
_NONZERO_PART = r"(([0-9]*[1-9][0-9]*(\.[0-9]+)?|[0-9]+\.[0-9]*[1-9][0-9]*)(ms|s|m|h|d))"
DURATION_PATTERN = f"^{_ANY_PART}*{_NONZERO_PART}{_ANY_PART}*$"
"""The regular expression of `is_duration` for schemas: at least one of the parts is not zero."""
_PART = re.compile(r"(?<![0-9])([0-9]++(?:\.[0-9]++)?)(ms|s|m|h|d)")
_ALL_PARTS = re.compile(r"(?:[0-9]++(?:\.[0-9]++)?(?:ms|s|m|h|d))+\Z")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MAX_DURATION = timedelta(days=36500)
"""A limit that can still be added to any datetime without overflow."""


def parse_duration(text: str) -> timedelta:
    """The duration; invalid text counts as zero, because admission has rejected it before."""
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return timedelta(seconds=min(seconds, _MAX_DURATION.total_seconds()))


def is_duration(text: str) -> bool:
    """Whether the text is a valid duration greater than zero."""
    return _ALL_PARTS.match(text) is not None and parse_duration(text) > timedelta()


def format_timedelta(duration: timedelta) -> str:
    """The duration as written in Trimtab's kinds: `1h30m` rather than 1:30:00."""
    rest, parts = round(duration.total_seconds() * 1000), []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"
