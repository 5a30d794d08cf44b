"""The values of the store: an entry, an event, and a page of a list."""

from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import force_setattr

from trimtab.similar_bytes import EditedBytes, PackedBytes, SamplePacker


class StoredEntry(Struct, frozen=True, gc=False):
    """The value of a key and its revisions. The revisions are not part of the stored bytes."""

    key: str
    held: bytes | PackedBytes | EditedBytes
    """The value, compressed if it was not written for long; what a simulated member starts with shares its bytes."""
    mod_revision: int
    create_revision: int

    @property
    def value(self) -> bytes:
        held = self.held
        return held if type(held) is bytes else held.unpack()  # type: ignore[union-attr]

    @property
    def held_size(self) -> int:
        """Bytes of the value in memory."""
        held = self.held
        return len(held) if type(held) is bytes else held.size  # type: ignore[union-attr]

    def pack(self, packer: SamplePacker, group: str) -> None:
        """Hold the value compressed from now on, for all who share this entry."""
        if type(self.held) is bytes:
            force_setattr(self, "held", packer.pack(group, self.held))


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
    def held_size(self) -> int:
        """Bytes of `last_value` in memory."""
        entry = self.entry or self.previous
        if entry is None:
            return 0
        held = entry.held
        return len(held) if type(held) is bytes else entry.held_size

    @property
    def prev_value(self) -> bytes | None:
        return self.previous.value if self.previous else None


class EntryPage(NamedTuple):
    """Part of a list: `revision` is the state it was read at, `remaining` the number of entries that follow."""

    entries: list[StoredEntry]
    revision: int
    remaining: int
