"""Keeps stored objects decoded that are read again and again, so that a change of one does not cost the decoding of all."""

from collections import OrderedDict

import orjson

from trimtab.api.value import Raw
from trimtab.store.records import StoredEntry

_MAX_BYTES = 16 * 1024 * 1024
"""Stored bytes of all objects that are kept; those used longest ago are dropped."""


class DecodedEntries:
    """Decodes stored objects; the results are shared and must not be changed."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._decoded: OrderedDict[str, tuple[StoredEntry, Raw]] = OrderedDict()
        self.size = 0
        """The stored bytes of all objects in it."""

    def decode(self, entry: StoredEntry) -> Raw:
        """The object as it is stored, decoded once per change."""
        known = self._decoded.get(entry.key)
        if known is not None and known[0].mod_revision == entry.mod_revision:
            self._decoded.move_to_end(entry.key)
            return known[1]
        obj: Raw = orjson.loads(entry.value)
        self._forget(entry.key)
        self._decoded[entry.key] = (entry, obj)
        self.size += len(entry.value)
        while self.size > self._max_bytes:
            self._forget(next(iter(self._decoded)))
        return obj

    def _forget(self, key: str) -> None:
        if (known := self._decoded.pop(key, None)) is not None:
            self.size -= len(known[0].value)
