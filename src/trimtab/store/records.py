"""The words of the store: what a key holds, what happened to it, and one page of a list."""

from typing import Any, Literal, NamedTuple

from msgspec import Struct


class Entry(Struct, frozen=True, gc=False):
    """What a key holds. The revisions stand beside the bytes, so nobody has to write them into the bytes."""

    key: str
    value: bytes
    mod_revision: int
    create_revision: int


class Event(Struct, eq=False, gc=False):
    """One change of one key, shared by all who watch it."""

    key: str
    revision: int
    entry: Entry | None
    previous: Entry | None
    memo: Any = None  # whoever first makes the wire form leaves it here for the others; forgotten after a while

    @property
    def type(self) -> Literal["ADDED", "MODIFIED", "DELETED"]:
        if self.entry is None:
            return "DELETED"
        return "ADDED" if self.previous is None else "MODIFIED"

    @property
    def value(self) -> bytes | None:
        return self.entry.value if self.entry else None

    @property
    def shown(self) -> bytes:
        """What a watcher of the key is shown: what it holds now, or what it held last."""
        entry = self.entry or self.previous
        return entry.value if entry else b""

    @property
    def prev_value(self) -> bytes | None:
        return self.previous.value if self.previous else None


class Page(NamedTuple):
    """A part of a list: `revision` is the state it shows, `remaining` how many entries follow."""

    entries: list[Entry]
    revision: int
    remaining: int
