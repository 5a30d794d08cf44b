"""Results for objects that many places share and nobody changes, found by identity: nothing in the object is read."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class IdentityCache(Generic[K, V]):
    """The results of a function for the objects it was called with last."""

    def __init__(self, compute: Callable[[K], V], *, max_entries: int) -> None:
        self._compute = compute
        self._max_entries = max_entries
        self._entries: dict[int, tuple[Any, V]] = {}

    def __call__(self, obj: K) -> V:
        entry = self._entries.get(id(obj))
        if entry is None:
            if len(self._entries) >= self._max_entries:
                self._entries.clear()
            # the object is stored with its result: while it is alive, no other object can have its id
            entry = self._entries[id(obj)] = (obj, self._compute(obj))
        return entry[1]
