"""Leader election and garbage collection of long-running commands."""

import gc
from typing import Any, cast

import pytest

from trimtab.cli.support.processes import new_election, run_process


def test_identities_of_two_elections_differ() -> None:
    first, second = (new_election(cast("Any", None), name="x", lease_seconds=15.0) for _ in range(2))
    assert first.identity != second.identity


def test_garbage_collection_is_rare_in_a_long_running_process(monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds = gc.get_threshold()
    seen: list[tuple[int, int, int]] = []

    async def work() -> None:
        seen.append(gc.get_threshold())

    try:
        run_process(work())
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    assert seen[0] > thresholds
