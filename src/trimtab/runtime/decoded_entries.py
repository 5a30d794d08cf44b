"""Which cached objects are kept decoded: those that changed or were read lately."""

from collections import OrderedDict
from typing import Protocol

MAX_DECODED_OBJECTS = 8192
"""Decoded objects of a control plane, 10 to 15 KiB each; what concerns workloads that move or were just created."""


class PackableEntry(Protocol):
    """A cached object that can be held in less memory."""

    def pack(self) -> None: ...


class DecodedEntries:
    """The decoded objects of all caches of a control plane; beyond the limit the oldest are packed.

    Most objects of a large fleet are settled: nothing reads them until they change. Packed they take less than a tenth of
    the memory. One that is read becomes one of the newest.
    """

    def __init__(self, limit: int = MAX_DECODED_OBJECTS) -> None:
        self._limit = limit
        self._entries: OrderedDict[PackableEntry, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: PackableEntry) -> None:
        self._entries[entry] = None
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)[0].pack()

    def discard(self, entry: PackableEntry) -> None:
        """An object that was replaced or deleted."""
        self._entries.pop(entry, None)
