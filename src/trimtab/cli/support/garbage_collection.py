"""Garbage collection of long-running processes in short steps.

Python's collector stops all threads while it looks at every object that it has not exempted. A control plane has a million of
them, most of which live as long as the process: a collection of everything takes a tenth of a second. So what has survived one
collection is exempted (frozen) from the next: each looks only at what was created since, and at each object once.

An exempted object is still freed when nothing refers to it. Only cycles of exempted objects are not: those that were in use during
the one collection that looked at them. When there are three times as many exempted objects as after the last complete collection,
they are looked at once more, all together.
"""

import gc
from typing import Any

NEW_OBJECTS = 30_000
"""New objects per collection. It takes some milliseconds."""
NEVER = 1_000_000
MIN_FROZEN = 2_000_000
"""Exempted objects; fewer are never looked at again."""
GROWTH = 3
COLLECTIONS_PER_COUNT = 32
"""Counting the exempted objects takes some milliseconds, so it is done after so many collections."""
_FULL = 2


class SteppedCollection:
    """Exempts what a collection has left, and now and then looks at everything."""

    def __init__(self, min_frozen: int = MIN_FROZEN) -> None:
        self._min_frozen = self._limit = min_frozen
        self._collections = 0
        self._waits_for_full = False

    def start(self) -> None:
        """Collect everything that exists, exempt it, and exempt what each later collection leaves."""
        gc.set_threshold(NEW_OBJECTS, NEVER, NEVER)
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._note)

    def stop(self) -> None:
        gc.callbacks.remove(self._note)
        gc.unfreeze()

    def _note(self, phase: str, info: dict[str, Any]) -> None:
        if phase != "stop":
            return
        if self._waits_for_full:
            if info["generation"] == _FULL:
                self._end_full()
            return
        gc.freeze()
        self._collections += 1
        if self._collections % COLLECTIONS_PER_COUNT == 0 and gc.get_freeze_count() > self._limit:
            self._begin_full()

    def _begin_full(self) -> None:
        """Make the next collections those of older generations; a callback cannot collect by itself."""
        self._waits_for_full = True
        gc.unfreeze()
        gc.set_threshold(NEW_OBJECTS, 0, 0)

    def _end_full(self) -> None:
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS, NEVER, NEVER)
        self._limit = max(self._min_frozen, GROWTH * gc.get_freeze_count())
        self._waits_for_full = False
