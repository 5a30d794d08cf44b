"""The store: one order of writes, acknowledged when durable, read and watched from memory.

The problem: an API server needs compare-and-swap writes, a total order of changes for watches, and durability. One
fsync per object would limit the server to the sync rate of the disk.

How a write goes:
1. `transact` queues a proposal: a function from the newest state to operations. `commit` is the case of fixed operations.
2. After a few turns of the event loop the queue is staged in order on a `StagedState`, the durable state plus the transactions
   of this group. Each proposal sees the ones before it, so no write comes between its reads and its writes.
3. The `WriterThread` appends the whole group to the SQLite log in one SQLite transaction, with one fsync (group commit).
   Transactions that arrive meanwhile form the next group; only one group is in progress at a time (`GroupCommit`).
4. Back in the event loop the events are applied to the `MemoryIndex`, watches wake up, and the callers get their results.

Every changed key takes the next revision, so a watch can resume between any two events. Watches read the history of the
index in memory; a slow watch never delays a writer, and gets `Expired` when its revision is compacted.

The invariant: the index contains exactly what is durable. Nothing is visible, acknowledged or watched before its group is
on disk, and a group is written as a whole or not at all. Therefore a refusal must not depend on a staged transaction,
which may still fail: such a transaction (`UnsettledWrite`) is queued again for the next group. When a write fails, all
transactions of its group fail, the index stays as it was, and the next group tries again.

Why like this: reads and watches cost no I/O and need no locks, because all state belongs to one event loop; only the
append runs in the thread. Without a journal (tests, simulations) a transaction is applied at once.
Alternatives that were tried or left out: docs/decisions/store.md.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from trimtab import errors
from trimtab.store.faults import damaged_fault
from trimtab.store.format_conversion import Conversion, convert_to_current_format
from trimtab.store.group_commit import GroupCommit
from trimtab.store.index import FIRST_REVISION, MemoryIndex, Retention, too_old_error
from trimtab.store.records import EntryPage, StoredEntry, StoreEvent
from trimtab.store.sqlite import Journal
from trimtab.store.txn import ABSENT, DeleteKey, Operation, Proposal, PutKey, StagedState, TransactionResult
from trimtab.store.value_cipher import ValueCipher
from trimtab.store.watch import StoreWatch
from trimtab.store.write_faults import WriteFaults


class Store:
    """Keys like `/registry/<group>/<resource>/<namespace>/<name>`, values of bytes; used from one event loop.

    Without a journal everything is in memory and a commit ends without waiting, also in virtual time.
    """

    def __init__(self, retention: Retention = Retention(), journal: Journal | None = None) -> None:  # noqa: B008 - a frozen value
        self.retention = retention
        self._index = MemoryIndex(retention)
        self.faults = WriteFaults()
        self._journal = journal
        self._group_commit = GroupCommit(self._index, journal, self.faults, self._apply) if journal else None
        self._closing = False
        self._first_write_at: float | None = None

    @classmethod
    def open(
        cls,
        directory: Path,
        retention: Retention = Retention(),  # noqa: B008 - a frozen value
        conversions: Mapping[int, Conversion] = {},
        cipher: ValueCipher | None = None,
    ) -> Self:
        """The store in a data directory, created if it does not exist; `errors.StoreError` if it cannot be used.

        `conversions` has, by format, how a value is converted to the next format. `cipher` encrypts values in the file.
        """
        journal = Journal(directory, cipher)
        store = cls(retention, journal)
        try:
            store._index.restore(journal.rows(), journal.compacted_revision())
            journal.check_complete(store.revision)
            unwritten = convert_to_current_format(store._index, journal, conversions)
            if unwritten is not None and store._group_commit is not None:
                store._group_commit.write_first(unwritten)
            journal.seal_again()
        except LookupError as error:
            journal.close()
            raise damaged_fault(journal.path, str(error)) from error
        except BaseException:
            journal.close()
            raise
        return store

    def fill(self, entries: Iterable[StoredEntry]) -> None:
        """Begin with these entries; for a store in memory to which nothing was written."""
        if not self.is_new:
            raise ValueError("only an empty store in memory can be filled")
        self._index.fill(entries)

    @property
    def fault(self) -> errors.StoreError | None:
        """Why the last write failed; None again after a successful one."""
        return self.faults.current

    def retry_writes(self) -> None:
        """Try regularly to write again, if the store was opened without room for what it had to write."""
        if self._group_commit is not None and self.fault is not None:
            self._group_commit.report_fault(self.fault)

    @property
    def revision(self) -> int:
        return self._index.revision

    @property
    def is_new(self) -> bool:
        """Whether it is in memory, and nothing was written to it."""
        return self._journal is None and self.revision == FIRST_REVISION

    @property
    def compacted_revision(self) -> int:
        return self._index.compacted

    @property
    def is_gathering(self) -> bool:
        """Whether transactions wait a few turns of the loop for others to join their group."""
        return self._group_commit is not None and self._group_commit.is_gathering

    def get(self, key: str) -> StoredEntry | None:
        return self._index.entries.get(key)

    def list(
        self, prefix: str, *, start_after: str | None = None, limit: int | None = None, at_revision: int | None = None
    ) -> EntryPage:
        """Entries in key order; no limit (or 0) means all, no revision means the current one."""
        return self._index.page(prefix, start_after, limit, at_revision)

    def snapshot(self) -> tuple[Sequence[StoredEntry], int]:
        """All entries and their revision, for a backup; much cheaper than a list, because nothing is sorted."""
        return list(self._index.entries.values()), self.revision

    def stored_value(self, key: str, value: bytes) -> bytes:
        """The value as it is on the disk: encrypted, if it is so there."""
        return self._journal.stored_value(key, value) if self._journal is not None else value

    def count(self, prefix: str) -> int:
        return self._index.count(prefix)

    def watch(self, prefix: str, from_revision: int | None = None, *, limit: int = 1000) -> StoreWatch:
        """Events after `from_revision` (default: the current revision), at most `limit` at a time."""
        revision = self.revision if from_revision is None else from_revision
        if revision < self.compacted_revision:
            raise too_old_error(revision, self.compacted_revision)
        return StoreWatch(self._index, prefix, revision, limit)

    def commit(self, operations: Iterable[Operation]) -> Coroutine[Any, Any, TransactionResult]:
        """All operations or none; raises `RevisionMismatch` when a condition does not hold."""
        staged = tuple(operations)
        return self.transact(lambda _: staged)

    async def transact(self, propose: Proposal) -> TransactionResult:
        """Commit the operations that `propose` derives from the newest state; no other write comes between.

        It may be called more than once, must not block, and may raise to refuse.
        """
        if self._closing:
            raise errors.Unavailable("the store is shutting down")
        if self._group_commit is not None:
            return await self._group_commit.add(propose)
        state = StagedState(self._index)
        written = state.run(propose)
        self._apply(state.events)
        return written

    async def create(self, key: str, value: bytes) -> StoredEntry:
        return _written_entry(await self.commit([PutKey(key, value, ABSENT)]))

    async def update(self, key: str, value: bytes, expected: int) -> StoredEntry:
        return _written_entry(await self.commit([PutKey(key, value, expected)]))

    async def delete(self, key: str, expected: int | None = None) -> StoreEvent | None:
        """The deletion, or None if the key did not exist."""
        written = await self.commit([DeleteKey(key, expected)])
        return written.events[0] if written.events else None

    def compact(self, revision: int) -> None:
        """Drop the history up to `revision`; the limits of `Retention` do the same automatically."""
        stale = self._index.compact(revision)
        if self._group_commit is not None:
            self._group_commit.delete_from_log(stale)

    async def close(self) -> None:
        """Finish accepted transactions, refuse new ones, end all watches."""
        if self._closing:
            return
        self._closing = True
        if self._group_commit is not None:
            await self._group_commit.close()
        self._index.close()

    def _apply(self, events: Iterable[StoreEvent]) -> Sequence[int]:
        """Make durable events visible; returns the revisions that the history does not need any more."""
        self._index.apply(events)
        return self._index.trim(self._now())

    def _now(self) -> float:
        """Seconds since the first write after opening; history found on disk counts as that old."""
        now = asyncio.get_running_loop().time()
        if self._first_write_at is None:
            self._first_write_at = now
        return now - self._first_write_at


def _written_entry(written: TransactionResult) -> StoredEntry:
    entry = written.events[0].entry
    assert entry is not None
    return entry
