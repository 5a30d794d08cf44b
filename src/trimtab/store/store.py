"""The store: one order of writes, acknowledged when durable, read and watched from memory.

The problem: an API server needs compare-and-swap writes, a total order of changes for watches, and durability. One
fsync per object would limit the server to the sync rate of the disk.

How a write goes:
1. `transact` queues a proposal: a function from the newest state to operations. `commit` is the case of fixed operations.
2. After a few turns of the event loop the queue is staged in order on a `Draft`, the durable state plus the transactions
   of this group. Each proposal sees the ones before it, so no write comes between its reads and its writes.
3. The `WriterThread` appends the whole group to the SQLite log in one SQLite transaction, with one fsync (group commit).
   Transactions that arrive meanwhile form the next group; only one group is in progress at a time.
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
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from trimtab import errors
from trimtab.store.faults import damaged_fault
from trimtab.store.index import MemoryIndex, Retention, too_old_error
from trimtab.store.records import EntryPage, StoredEntry, StoreEvent
from trimtab.store.sqlite import FORMAT, CommitBatch, Journal
from trimtab.store.txn import ABSENT, DeleteKey, Draft, Operation, Proposal, PutKey, TransactionResult, UnsettledWrite
from trimtab.store.value_cipher import ValueCipher
from trimtab.store.watch import StoreWatch
from trimtab.store.writer_thread import WriterThread

LOOP_TURNS_TO_JOIN = 4
SECONDS_BETWEEN_TRIES = 2.0
"""While writes fail, how often the store finds out whether they work again; nobody else may write meanwhile."""
SECONDS_BETWEEN_LOG_LINES = 60.0
log = logging.getLogger("trimtab.store")

Conversion = Callable[[str, bytes], bytes]
"""Returns the value of a key in the next format; the same value if nothing changes."""


NO_CHANGES = CommitBatch((), (), 0)


class _QueuedTransaction(NamedTuple):
    """A queued transaction and the future of its result."""

    propose: Proposal
    outcome: "asyncio.Future[TransactionResult]"


class Store:
    """Keys like `/registry/<group>/<resource>/<namespace>/<name>`, values of bytes; used from one event loop.

    Without a journal everything is in memory and a commit ends without waiting, also in virtual time.
    """

    def __init__(self, retention: Retention = Retention(), journal: Journal | None = None) -> None:  # noqa: B008 - a frozen value
        self.fault: errors.StoreError | None = None  # why the last write failed; None again after a successful one
        self.retention = retention
        self._index = MemoryIndex(retention)
        self._journal = journal
        self._writer = WriterThread() if journal else None
        self._queue: list[_QueuedTransaction] = []
        self._stale: list[int] = []
        self._busy = False
        self._gathering = False
        self._closing = False
        self._idle: asyncio.Future[None] | None = None
        self._first_write_at: float | None = None
        self._next_try: asyncio.TimerHandle | None = None
        self._is_trying = False
        self._logged_at: float | None = None
        self._is_fault_logged = False
        self._unwritten_conversion: tuple[CommitBatch, int] | None = None

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
            store._index.restore(journal.rows(), journal.compacted())
            journal.check_complete(store.revision)
            store._migrate(journal, conversions)
            journal.seal_again()
        except LookupError as error:
            journal.close()
            raise damaged_fault(journal.path, str(error)) from error
        except BaseException:
            journal.close()
            raise
        return store

    def _migrate(self, journal: Journal, conversions: Mapping[int, Conversion]) -> None:
        """Convert an older format to the current one, in one transaction.

        Without room on the disk the converted state is served from memory, and written before any other write.
        """
        if journal.format == FORMAT:
            return
        try:
            steps = [conversions[version] for version in range(journal.format, FORMAT)]
        except KeyError as missing:
            raise ValueError(f"no conversion from format {missing} was given to open {journal.path}") from None
        draft = Draft(self._index)
        draft.run(lambda _: list(self._converted_entries(steps)))
        batch = CommitBatch(draft.events, (), self._index.compacted, FORMAT)
        try:
            journal.convert(batch, self.revision)
        except errors.StorageFailed as fault:
            self.fault, self._unwritten_conversion = fault, (batch, self.revision)
        self._index.apply(draft.events)

    def retry_writes(self) -> None:
        """Try regularly to write again, if the store was opened without room for what it had to write."""
        if self.fault is not None:
            self._report_fault(self.fault)

    def _write_to_journal(self, write: Callable[[], None]) -> None:
        """Write, after the conversion of the format if that is still to be written; runs in the writer thread."""
        if self._unwritten_conversion is not None:
            assert self._journal is not None
            self._journal.convert(*self._unwritten_conversion)
            self._unwritten_conversion = None
        write()

    def _converted_entries(self, steps: Sequence[Conversion]) -> Iterator[PutKey]:
        for entry in self._index.entries.values():
            value = entry.value
            for convert in steps:
                value = convert(entry.key, value)
            if value != entry.value:
                yield PutKey(entry.key, value, entry.mod_revision)

    @property
    def revision(self) -> int:
        return self._index.revision

    @property
    def compacted(self) -> int:
        return self._index.compacted

    @property
    def is_gathering(self) -> bool:
        """Whether transactions wait a few turns of the loop for others to join their group."""
        return self._gathering

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
        if revision < self.compacted:
            raise too_old_error(revision, self.compacted)
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
        if self._journal is None:
            draft = Draft(self._index)
            written = draft.run(propose)
            self._apply(draft.events)
            return written
        outcome: asyncio.Future[TransactionResult] = asyncio.get_running_loop().create_future()
        self._queue.append(_QueuedTransaction(propose, outcome))
        self._start_group_commit()
        return await outcome

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
        self._stale += self._index.compact(revision)
        if self._journal is None:
            self._stale.clear()
        elif self._stale and not self._closing:
            self._start_group_commit()

    async def close(self) -> None:
        """Finish accepted transactions, refuse new ones, end all watches."""
        if self._closing:
            return
        self._closing = True
        if self._next_try is not None:
            self._next_try.cancel()
        if self._journal and self._writer:
            if self._busy:
                self._idle = asyncio.get_running_loop().create_future()
                await self._idle
            await self._writer.run(self._journal.close)
            self._writer.stop()
        self._index.close()

    def _start_group_commit(self) -> None:
        """Start a group commit, unless one is in progress."""
        if not self._busy:
            self._busy = self._gathering = True
            self._wait_for_joiners(LOOP_TURNS_TO_JOIN)

    def _wait_for_joiners(self, turns: int) -> None:
        """Let the loop run a few turns before the group is written, so that concurrent writers join it.

        In a busy loop a turn takes long and many writers join; in an idle loop the turns take no time.
        """
        if turns:
            asyncio.get_running_loop().call_soon(self._wait_for_joiners, turns - 1)
        else:
            self._write_group()

    def _write_group(self) -> None:
        self._gathering = False
        draft = Draft(self._index)
        group = self._stage_queue(draft)
        assert self._journal is not None
        assert self._writer is not None
        if not draft.events and not self._stale:
            if self._is_trying:
                self._writer.submit(
                    partial(self._write_to_journal, self._journal.try_write),
                    partial(self._on_written, group, NO_CHANGES),
                )
            else:
                self._acknowledge(group, ())
            return
        batch = CommitBatch(draft.events, self._stale, self._index.compacted)
        self._stale = []
        write = partial(self._write_to_journal, partial(self._journal.write, batch))
        self._writer.submit(write, partial(self._on_written, group, batch))

    def _stage_queue(self, draft: Draft) -> Sequence[tuple[_QueuedTransaction, TransactionResult]]:
        """Stage the queue in order; refuse at once what the durable state refuses."""
        queued, self._queue = self._queue, []
        group: list[tuple[_QueuedTransaction, TransactionResult]] = []
        for transaction in queued:
            if transaction.outcome.done():
                continue  # the caller was cancelled
            try:
                group.append((transaction, draft.run(transaction.propose)))
            except UnsettledWrite:
                self._queue.append(transaction)
            except Exception as error:  # noqa: BLE001 - raised to the caller of the transaction
                transaction.outcome.set_exception(error)
        return group

    def _on_written(
        self,
        group: Sequence[tuple[_QueuedTransaction, TransactionResult]],
        batch: CommitBatch,
        failure: Exception | None,
    ) -> None:
        self._is_trying = False
        if failure is None:
            if self._is_fault_logged:
                log.warning("writes work again")
            self.fault, self._is_fault_logged = None, False
            self._acknowledge(group, batch.events)
            return
        if isinstance(failure, errors.StoreError):
            self._report_fault(failure)
        self._stale += batch.stale
        for transaction, _ in group:
            if not transaction.outcome.done():
                transaction.outcome.set_exception(failure)
        self._start_next_group()

    def _report_fault(self, fault: errors.StoreError) -> None:
        """Log the fault, not more than once a minute, and try again later whether or not somebody writes."""
        self.fault = fault
        loop = asyncio.get_running_loop()
        if self._logged_at is None or loop.time() - self._logged_at >= SECONDS_BETWEEN_LOG_LINES:
            self._logged_at, self._is_fault_logged = loop.time(), True
            log.error("writes are refused: %s", fault)
        if self._next_try is None and not self._closing:
            self._next_try = loop.call_later(SECONDS_BETWEEN_TRIES, self._try_again)

    def _try_again(self) -> None:
        self._next_try = None
        if self.fault is not None and not self._closing:
            self._is_trying = True
            self._start_group_commit()

    def _acknowledge(
        self, group: Sequence[tuple[_QueuedTransaction, TransactionResult]], events: Iterable[StoreEvent]
    ) -> None:
        self._apply(events)
        for transaction, written in group:
            if not transaction.outcome.done():
                transaction.outcome.set_result(written)
        self._start_next_group()

    def _apply(self, events: Iterable[StoreEvent]) -> None:
        self._index.apply(events)
        stale = self._index.trim(self._now())
        if self._journal:
            self._stale += stale

    def _start_next_group(self) -> None:
        """Start the next group, after the callers just answered had a turn to join it."""
        self._busy = False
        if self._queue:
            self._start_group_commit()
        elif self._idle and not self._idle.done():
            self._idle.set_result(None)

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
