"""Leader election and garbage collection of long-running commands."""

import gc
from typing import Any, cast

from trimtab.cli.support.processes import new_election, run_process


def test_identities_of_two_elections_differ() -> None:
    first, second = (new_election(cast("Any", None), name="x", lease_seconds=15.0) for _ in range(2))
    assert first.identity != second.identity


def test_objects_that_exist_at_the_start_are_exempt_from_garbage_collection() -> None:
    exempt: list[int] = []

    async def work() -> None:
        exempt.append(gc.get_freeze_count())

    before = gc.get_freeze_count()
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    try:
        run_process(work())
    finally:
        gc.set_threshold(*thresholds)
    assert exempt[0] > before
    assert gc.callbacks == callbacks
