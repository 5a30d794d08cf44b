"""Caches results for objects that many places share and nobody changes: found by identity, so nothing in them is read."""

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def cache_by_identity(compute: Callable[[K], V], *, max_entries: int) -> Callable[[K], V]:
    """The same function, which computes an object that it was called with lately only once."""
    entries: dict[int, tuple[K, V]] = {}

    def cached(obj: K) -> V:
        entry = entries.get(id(obj))
        if entry is None:
            if len(entries) >= max_entries:
                entries.clear()
            # the object is stored with its result: while it is alive, no other object can have its id
            entry = entries[id(obj)] = (obj, compute(obj))
        return entry[1]

    return cached
