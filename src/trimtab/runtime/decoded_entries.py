"""Which cached objects are kept decoded: those that changed or were read lately."""

from collections import OrderedDict
from typing import Protocol

MAX_DECODED_OBJECTS = 8192
"""Decoded objects of a control plane, 10 to 15 KiB each; what concerns workloads that move or were just created."""


class PackableEntry(Protocol):
    """A cached object that can be held in less memory."""

    @property
    def weight(self) -> int:
        """As how many objects of usual size it counts."""

    def pack(self) -> None: ...


class DecodedEntries:
    """The decoded objects of all caches of a control plane; beyond the limit the oldest are packed.

    Most objects of a large fleet are settled: nothing reads them until they change. Packed they take less than a tenth of
    the memory. One that is read becomes one of the newest.
    """

    def __init__(self, limit: int = MAX_DECODED_OBJECTS) -> None:
        self._limit = limit
        self._weights: OrderedDict[PackableEntry, int] = OrderedDict()
        self._total = 0

    def __len__(self) -> int:
        return len(self._weights)

    def add(self, entry: PackableEntry) -> None:
        self._total += entry.weight - self._weights.pop(entry, 0)
        self._weights[entry] = entry.weight  # the newest
        while self._total > self._limit and len(self._weights) > 1:
            oldest, weight = self._weights.popitem(last=False)
            self._total -= weight
            oldest.pack()

    def discard(self, entry: PackableEntry) -> None:
        """An object that was replaced or deleted."""
        self._total -= self._weights.pop(entry, 0)
