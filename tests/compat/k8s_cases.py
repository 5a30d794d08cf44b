"""Reads recorded Kubernetes and descheduler cases and describes differences from them."""

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
    """One line per field that differs; null, absent and empty values are equal."""
    found = []
    for field in sorted({*expected, *got}):
        want, have = expected.get(field) or None, got.get(field) or None
        if want != have:
            found.append(f"{field}: recorded {want!r}, ours {have!r}")
    return found


def compare_cases(path: str | Path, compare: Callable[[dict[str, Any]], Iterable[str]]) -> Iterator[Outcome]:
    """`compare` returns the differences of one case."""
    for case in cases(path):
        found = list(compare(case))
        yield case["id"], not found, "; ".join(found)
