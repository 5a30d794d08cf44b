"""Measures the steps that controllers report, and passes each with its duration to a function."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from trimtab.decide.step_observer import StepResult


class FinishedStep(NamedTuple):
    """One step, or one plugin within a step."""

    step: str
    plugin: str
    """Empty for the step itself."""
    seconds: float
    """Without the steps within it; with its plugins."""
    succeeded: bool


class StepTimes:
    """A `StepObserver`. Controllers are synchronous, so the steps in progress are a stack."""

    def __init__(
        self, report: Callable[[FinishedStep], None], read_clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._report = report
        self._read_clock = read_clock
        self._nested = 0.0
        """Seconds of the steps that ended within the step in progress."""

    @contextmanager
    def measure(self, step: str, plugin: str = "") -> Iterator[StepResult]:
        """Measure what runs in the context; what ends by an exception is not reported."""
        outer, self._nested = self._nested, 0.0
        result, started = StepResult(), self._read_clock()
        elapsed = nested = 0.0
        try:
            yield result
        finally:
            elapsed, nested = self._read_clock() - started, self._nested
            self._nested = outer + (nested if plugin else elapsed)
        self._report(FinishedStep(step, plugin, elapsed - nested, result.succeeded))
