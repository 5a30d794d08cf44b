"""Transactions: operations with their conditions, judged one after another against the newest state."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from trimtab import errors
from trimtab.store.index import Index
from trimtab.store.records import Entry, Event

ABSENT = 0  # as an expected revision: the key must not exist


class Put(Struct, frozen=True):
    """Write a key; `expected` is the mod_revision it must have, `ABSENT`, or None for whatever it is."""

    key: str
    value: bytes
    expected: int | None = None
    memo: dict[str, Any] | None = None
    """What the writer has already made of the value, for those who watch."""


class Delete(Struct, frozen=True):
    """Remove a key; one that is not there stays that way and takes no revision, unless it was expected."""

    key: str
    expected: int | None = None


class Check(Struct, frozen=True):
    """Let the transaction pass only if the key still has this mod_revision (or is `ABSENT`)."""

    key: str
    expected: int


Operation = Put | Delete | Check


class Written(Struct, frozen=True):
    """What a transaction did: its events in the order of its operations, and the store's revision with it."""

    revision: int
    events: tuple[Event, ...]


class Mismatch(errors.Conflict):
    """A condition did not hold: `current` is what the key holds now."""

    def __init__(self, key: str, expected: int, current: Entry | None) -> None:
        wanted = f"at revision {expected}" if expected else "absent"
        found = f"it is at revision {current.mod_revision}" if current else "it does not exist"
        super().__init__(f"{key} was expected {wanted}, but {found}")
        self.key = key
        self.expected = expected
        self.current = current


class Unsettled(Exception):
    """A refusal that leans on a write which may still fail: ask again when that write is settled."""


class Draft:
    """The next state in the making: the durable one plus the transactions of one group commit.

    A transaction may build on an earlier one of its group, for they are written together or not at all. It may
    not be refused because of one: nobody outside may learn of a write that could still fail.
    """

    def __init__(self, index: Index) -> None:
        self.events: list[Event] = []
        self._index = index
        self._pending: dict[str, Entry | None] = {}
        self._revision = index.revision
        self._leans = False

    def get(self, key: str) -> Entry | None:
        if key in self._pending:
            self._leans = True
            return self._pending[key]
        return self._index.entries.get(key)

    def list(self, prefix: str) -> list[Entry]:
        found = {entry.key: entry for entry in self._index.page(prefix, None, None, None).entries}
        for key, entry in self._pending.items():
            if key.startswith(prefix):
                self._leans = True
                found.pop(key, None)
                if entry is not None:
                    found[key] = entry
        return [found[key] for key in sorted(found)]

    def run(self, propose: "Proposal") -> Written:
        """Judge and stage one transaction; if it is refused, nothing of it stays."""
        self._leans = False
        try:
            operations = tuple(propose(self))
            self._judge(operations)
        except Exception as refusal:
            if self._leans:
                raise Unsettled from refusal
            raise
        events = [event for operation in operations if (event := self._stage(operation))]
        self.events += events
        return Written(self._revision, tuple(events))

    def _judge(self, operations: Sequence[Operation]) -> None:
        if len(operations) > 1:
            _refuse_twins(operations)
        for operation in operations:
            key, expected = operation.key, operation.expected
            if isinstance(operation, Put) and type(operation.value) is not bytes:
                raise TypeError(f"the value of {key} is {type(operation.value).__name__}, not bytes")
            if not key.isascii():
                key.encode()  # a lone surrogate must fail its own transaction, not the whole group
            if expected is None:
                continue
            current = self.get(key)
            if expected != (current.mod_revision if current else ABSENT):
                raise Mismatch(key, expected, current)

    def _stage(self, operation: Operation) -> Event | None:
        if isinstance(operation, Check):
            return None
        key, previous, revision = operation.key, self.get(operation.key), self._revision + 1
        entry, memo = None, None
        if isinstance(operation, Put):
            memo = operation.memo
            key = key if previous is None else previous.key  # one string per key, however often it is written
            entry = Entry(key, operation.value, revision, previous.create_revision if previous else revision)
        elif previous is None:
            return None
        self._revision = revision
        self._pending[key] = entry
        return Event(key, revision, entry, previous, memo)


def _refuse_twins(operations: Sequence[Operation]) -> None:
    seen: set[str] = set()
    for operation in operations:
        if operation.key in seen:
            raise ValueError(f"two operations on {operation.key} in one transaction")
        seen.add(operation.key)


Proposal = Callable[[Draft], Iterable[Operation]]
