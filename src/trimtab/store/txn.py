"""Transactions: operations with conditions, checked one after another against the newest state."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from trimtab import errors
from trimtab.store.index import MemoryIndex
from trimtab.store.records import StoredEntry, StoreEvent

ABSENT = 0  # as an expected revision: the key must not exist


class PutKey(Struct, frozen=True):
    """Write a key; `expected` is the required mod_revision, `ABSENT`, or None for any."""

    key: str
    value: bytes
    expected: int | None = None
    memo: dict[str, Any] | None = None
    """Encodings of the value that the writer already has, for watchers."""


class DeleteKey(Struct, frozen=True):
    """Delete a key; a key that does not exist takes no revision, and is an error only if a revision was expected."""

    key: str
    expected: int | None = None


class CheckKey(Struct, frozen=True):
    """Fail the transaction unless the key still has this mod_revision (or is `ABSENT`)."""

    key: str
    expected: int


Operation = PutKey | DeleteKey | CheckKey


class TransactionResult(Struct, frozen=True):
    """The events of a transaction in the order of its operations, and the store's revision after it."""

    revision: int
    events: tuple[StoreEvent, ...]


class RevisionMismatch(errors.Conflict):
    """A condition did not hold; `current` is the current entry of the key."""

    def __init__(self, key: str, expected: int, current: StoredEntry | None) -> None:
        required = f"at revision {expected}" if expected else "absent"
        found = f"it is at revision {current.mod_revision}" if current else "it does not exist"
        super().__init__(f"{key} was expected {required}, but {found}")
        self.key = key
        self.expected = expected
        self.current = current


class UnsettledWrite(Exception):
    """A refusal that depends on a write which is not durable yet: retry when that write has ended."""


class StagedState:
    """The durable state plus the transactions staged for one group commit.

    A transaction may build on an earlier one of its group, because the group is written as a whole or not at all. It must
    not be refused because of one: a caller must not learn of a write that may still fail.
    """

    def __init__(self, index: MemoryIndex) -> None:
        self.events: list[StoreEvent] = []
        self._index = index
        self._pending: dict[str, StoredEntry | None] = {}
        self._revision = index.revision
        self._read_pending = False

    def get(self, key: str) -> StoredEntry | None:
        if key in self._pending:
            self._read_pending = True
            return self._pending[key]
        return self._index.entries.get(key)

    def list(self, prefix: str) -> list[StoredEntry]:
        found = {entry.key: entry for entry in self._index.page(prefix, None, None, None).entries}
        for key, entry in self._pending.items():
            if key.startswith(prefix):
                self._read_pending = True
                found.pop(key, None)
                if entry is not None:
                    found[key] = entry
        return [found[key] for key in sorted(found)]

    def run(self, propose: "Proposal") -> TransactionResult:
        """Check and stage one transaction; a refused transaction leaves nothing behind."""
        self._read_pending = False
        try:
            operations = tuple(propose(self))
            self._check_conditions(operations)
        except Exception as refusal:
            if self._read_pending:
                raise UnsettledWrite from refusal
            raise
        events = [event for operation in operations if (event := self._stage(operation))]
        self.events += events
        return TransactionResult(self._revision, tuple(events))

    def _check_conditions(self, operations: Sequence[Operation]) -> None:
        if len(operations) > 1:
            _refuse_duplicate_keys(operations)
        for operation in operations:
            key, expected = operation.key, operation.expected
            if type(operation) is PutKey and type(operation.value) is not bytes:
                raise TypeError(f"the value of {key} is {type(operation.value).__name__}, not bytes")
            if not key.isascii():
                key.encode()  # a lone surrogate must fail its own transaction, not the whole group
            if expected is None:
                continue
            current = self.get(key)
            if expected != (current.mod_revision if current else ABSENT):
                raise RevisionMismatch(key, expected, current)

    def _stage(self, operation: Operation) -> StoreEvent | None:
        if type(operation) is CheckKey:
            return None
        key, pending, revision = operation.key, self._pending, self._revision + 1
        previous = pending[key] if key in pending else self._index.entries.get(key)
        entry, memo = None, None
        if type(operation) is PutKey:
            memo = operation.memo
            key = (
                key if previous is None else previous.key
            )  # share one string per key, however often the key is written
            entry = StoredEntry(key, operation.value, revision, previous.create_revision if previous else revision)
        elif previous is None:
            return None
        self._revision = revision
        pending[key] = entry
        return StoreEvent(key, revision, entry, previous, memo)


def _refuse_duplicate_keys(operations: Sequence[Operation]) -> None:
    seen: set[str] = set()
    for operation in operations:
        if operation.key in seen:
            raise ValueError(f"two operations on {operation.key} in one transaction")
        seen.add(operation.key)


Proposal = Callable[[StagedState], Iterable[Operation]]
