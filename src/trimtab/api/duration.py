"""Lengths of time as people write them in our kinds: `90s`, `1h30m`, `2d`."""

import re
from datetime import timedelta

_ANY = r"([0-9]+(\.[0-9]+)?(ms|s|m|h|d))"
_SOME = r"(([0-9]*[1-9][0-9]*(\.[0-9]+)?|[0-9]+\.[0-9]*[1-9][0-9]*)(ms|s|m|h|d))"
DURATION = f"^{_ANY}*{_SOME}{_ANY}*$"
"""`is_duration` in words that a schema understands: one of the parts is not zero."""
_PART = re.compile(r"(?<![0-9])([0-9]++(?:\.[0-9]++)?)(ms|s|m|h|d)")
_WHOLE = re.compile(r"(?:[0-9]++(?:\.[0-9]++)?(?:ms|s|m|h|d))+\Z")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = timedelta(days=36500)
"""A century is for ever, and can still be added to any time."""


def duration(text: str) -> timedelta:
    """The length of time; what cannot be read is none, because admission has refused it before."""
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    return timedelta(seconds=min(seconds, _LONGEST.total_seconds()))


def is_duration(text: str) -> bool:
    """Whether it is written as our kinds write lengths of time, and longer than nothing."""
    return _WHOLE.match(text) is not None and duration(text) > timedelta()


def told(length: timedelta) -> str:
    """The length of time as people write it: `1h30m` rather than 1:30:00."""
    left, parts = round(length.total_seconds() * 1000), []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"
