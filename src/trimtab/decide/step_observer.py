"""What the core reports about the steps of a reconcile. An observer may read a clock; the core has none."""

from collections.abc import Hashable
from contextlib import AbstractContextManager
from typing import Protocol


class StepResult:
    """What came of a step: whether the decision can go on after it."""

    __slots__ = ("succeeded",)

    def __init__(self) -> None:
        self.succeeded = True


class StepObserver(Hashable, Protocol):
    """Observes the steps of a reconcile. Steps may be nested, and plugins run within a step."""

    def measure(self, step: str, plugin: str = "") -> AbstractContextManager[StepResult]: ...
