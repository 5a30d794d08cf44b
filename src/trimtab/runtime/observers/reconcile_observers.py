"""What a reconciler reports to those who observe reconciles and writes: traces, and metrics under other names.

Without observers nothing is recorded. An observer is called when a reconcile and its writes have ended. It must not wait.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from trimtab.api.value import Key
from trimtab.runtime.cache import CacheEntry
from trimtab.tasks import LoggedFailure

log = logging.getLogger("trimtab.reconciler")


class FinishedReconcile(NamedTuple):
    """One reconcile of one object; times are Unix times in nanoseconds."""

    controller: str
    key: Key
    entry: CacheEntry | None
    """The object as it was when the reconcile began; None if it was deleted."""
    started: int
    ended: int
    had_effects: bool
    """Whether there was anything to write or to ask."""
    failure: str
    """The reason of the fault that ended it, such as Conflict; empty after a success."""

    @property
    def seconds(self) -> float:
        return (self.ended - self.started) / 1e9


ReconcileObserver = Callable[[FinishedReconcile], None]


class MemberWrite(NamedTuple):
    """A write of one object in a member that has ended."""

    verb: Literal["create", "update", "delete"]
    cluster: str
    api_version: str
    kind: str
    failed: bool


MemberWriteObserver = Callable[[MemberWrite], None]


class ReconcileTimes:
    """The reconciles of one controller that are in progress, for its observers."""

    def __init__(self, controller: str, observers: Sequence[ReconcileObserver]) -> None:
        self._controller = controller
        self._observers = observers
        self._begun: dict[Key, tuple[int, CacheEntry | None]] = {}
        self._failures: dict[Key, str] = {}

    def begin(self, keys: Iterable[Key], find: Callable[[Key], CacheEntry | None]) -> None:
        now = time.time_ns()
        for key in keys:
            self._begun[key] = (now, find(key))

    def fail(self, key: Key, reason: str) -> None:
        self._failures[key] = reason

    def end(self, key: Key, *, had_effects: bool) -> None:
        """Report the reconcile; a bug in an observer is logged and stops nobody."""
        begun = self._begun.pop(key, None)
        failure = self._failures.pop(key, "")
        if begun is None:
            return
        started, entry = begun
        ended = max(started, time.time_ns())
        finished = FinishedReconcile(self._controller, key, entry, started, ended, had_effects, failure)
        for observer in self._observers:
            with LoggedFailure(log, "an observer of %s failed on %s", self._controller, key):
                observer(finished)
