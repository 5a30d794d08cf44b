"""Reading recorded Kubernetes and descheduler cases, and saying how an answer differs from the record."""

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

Outcome = tuple[str, bool, str]


def cases(path: str | Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line)


def differences(expected: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    """One line per field that is not as recorded; nothing recorded (null, absent, empty) equals nothing given."""
    told = []
    for field in sorted({*expected, *got}):
        want, have = expected.get(field) or None, got.get(field) or None
        if want != have:
            told.append(f"{field}: recorded {want!r}, ours {have!r}")
    return told


def judged(path: str | Path, judge: Callable[[dict[str, Any]], Iterable[str]]) -> Iterator[Outcome]:
    """`judge` names what differs in one case."""
    for case in cases(path):
        told = list(judge(case))
        yield case["id"], not told, "; ".join(told)
