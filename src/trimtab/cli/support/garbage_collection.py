"""Garbage collection of long-running processes in short steps.

Python's collector stops all threads while it looks at every object that it has not exempted. A control plane has a million of
them, most of which live as long as the process: a collection of everything takes a tenth of a second. So what has survived one is
exempted (frozen) from the next: each looks only at what was created since, and the thresholds bound how much that can be.

An exempted object is still freed when nothing refers to it. Only cycles of exempted objects are not. When there are three times as
many exempted objects as after the last complete collection, they are looked at once more, all together.
"""

import gc
from typing import Any

THRESHOLDS = (10_000, 3, 2)
"""New objects per collection of the youngest, and how many of these make one of the next generation: some 100,000 objects in all."""
MIN_FROZEN = 2_000_000
"""Exempted objects; fewer are never looked at again."""
GROWTH = 3
COLLECTIONS_PER_COUNT = 16
"""Counting the exempted objects takes some milliseconds, so it is done at every sixteenth full collection."""
_FULL = 2


class SteppedCollection:
    """Exempts what a full collection has left, and now and then looks at everything."""

    def __init__(self, min_frozen: int = MIN_FROZEN) -> None:
        self._min_frozen = self._limit = min_frozen
        self._collections = 0
        self._is_complete = False

    def start(self) -> None:
        """Collect everything that exists, exempt it, and exempt what each later full collection leaves."""
        gc.set_threshold(*THRESHOLDS)
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._note)

    def stop(self) -> None:
        gc.callbacks.remove(self._note)
        gc.unfreeze()

    def _note(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != _FULL:
            return
        if phase == "stop":
            gc.freeze()
            if self._is_complete:
                self._is_complete = False
                self._limit = max(self._min_frozen, GROWTH * gc.get_freeze_count())
            return
        self._collections += 1
        if self._collections % COLLECTIONS_PER_COUNT == 0 and gc.get_freeze_count() > self._limit:
            self._is_complete = True
            gc.unfreeze()
