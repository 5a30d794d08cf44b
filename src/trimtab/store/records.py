"""The values of the store: an entry, an event, and a page of a list."""

from typing import Any, Literal, NamedTuple

from msgspec import Struct


class StoredEntry(Struct, frozen=True, gc=False):
    """The value of a key and its revisions. The revisions are not part of the stored bytes."""

    key: str
    value: bytes
    mod_revision: int
    create_revision: int


class StoreEvent(Struct, eq=False, gc=False):
    """One change of one key, shared by all its watchers."""

    key: str
    revision: int
    entry: StoredEntry | None
    previous: StoredEntry | None
    memo: Any = None  # encodings that watchers share; dropped after a number of newer events

    @property
    def type(self) -> Literal["ADDED", "MODIFIED", "DELETED"]:
        if self.entry is None:
            return "DELETED"
        return "ADDED" if self.previous is None else "MODIFIED"

    @property
    def value(self) -> bytes | None:
        return self.entry.value if self.entry else None

    @property
    def last_value(self) -> bytes:
        """The current value, or the last one of a deleted key."""
        entry = self.entry or self.previous
        return entry.value if entry else b""

    @property
    def prev_value(self) -> bytes | None:
        return self.previous.value if self.previous else None


class EntryPage(NamedTuple):
    """Part of a list: `revision` is the state it was read at, `remaining` the number of entries that follow."""

    entries: list[StoredEntry]
    revision: int
    remaining: int
