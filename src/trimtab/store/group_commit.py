"""Commits queued transactions to the journal in groups, one at a time, with one fsync each (see `store.py`)."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from trimtab import errors
from trimtab.store.format_conversion import UnwrittenConversion
from trimtab.store.index import MemoryIndex
from trimtab.store.records import StoreEvent
from trimtab.store.sqlite import CommitBatch, Journal
from trimtab.store.txn import Proposal, StagedState, TransactionResult, UnsettledWrite
from trimtab.store.write_faults import WriteFaults
from trimtab.store.writer_thread import WriterThread

LOOP_TURNS_TO_JOIN = 4
NO_CHANGES = CommitBatch((), (), 0)


class _QueuedTransaction(NamedTuple):
    """A queued transaction and the future of its result."""

    propose: Proposal
    outcome: "asyncio.Future[TransactionResult]"


StagedGroup = Sequence[tuple[_QueuedTransaction, TransactionResult]]


class GroupCommit:
    """The queue of transactions of a store with a journal, and the group in progress.

    `apply_events` makes durable events visible and returns the revisions that the log does not need any more.
    """

    def __init__(
        self,
        index: MemoryIndex,
        journal: Journal,
        faults: WriteFaults,
        apply_events: Callable[[Iterable[StoreEvent]], Sequence[int]],
    ) -> None:
        self.is_gathering = False
        """Whether transactions wait a few turns of the loop for others to join their group."""
        self._index = index
        self._journal = journal
        self._faults = faults
        self._apply_events = apply_events
        self._writer = WriterThread()
        self._queue: list[_QueuedTransaction] = []
        self._stale: list[int] = []
        self._busy = False
        self._is_trying = False
        self._idle: asyncio.Future[None] | None = None
        self._unwritten_conversion: UnwrittenConversion | None = None

    def write_first(self, conversion: UnwrittenConversion) -> None:
        """Write this conversion before the first group; until then the store has its fault."""
        self._unwritten_conversion = conversion
        self._faults.current = conversion.fault

    def add(self, propose: Proposal) -> "asyncio.Future[TransactionResult]":
        outcome: asyncio.Future[TransactionResult] = asyncio.get_running_loop().create_future()
        self._queue.append(_QueuedTransaction(propose, outcome))
        self._start()
        return outcome

    def delete_from_log(self, stale: Iterable[int]) -> None:
        """Delete revisions from the log with the next group."""
        self._stale += stale
        if self._stale and self._idle is None:
            self._start()

    def report_fault(self, fault: errors.StoreError) -> None:
        """Writes fail; find out regularly whether they work again."""
        self._faults.report(fault, self._try_again)

    async def close(self) -> None:
        """Finish the transactions that were added."""
        self._faults.stop()
        self._idle = asyncio.get_running_loop().create_future()
        if self._busy:
            await self._idle
        await self._writer.run(self._journal.close)
        self._writer.stop()

    def _start(self) -> None:
        """Start a group commit, unless one is in progress."""
        if not self._busy:
            self._busy = self.is_gathering = True
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
        self.is_gathering = False
        state = StagedState(self._index)
        group = self._stage_queue(state)
        if not state.events and not self._stale:
            if self._is_trying:
                self._writer.submit(
                    partial(self._write_to_journal, self._journal.try_write),
                    partial(self._on_written, group, NO_CHANGES),
                )
            else:
                self._acknowledge(group, ())
            return
        batch = CommitBatch(state.events, self._stale, self._index.compacted)
        self._stale = []
        write = partial(self._write_to_journal, partial(self._journal.write, batch))
        self._writer.submit(write, partial(self._on_written, group, batch))

    def _stage_queue(self, state: StagedState) -> StagedGroup:
        """Stage the queue in order; refuse at once what the durable state refuses."""
        queued, self._queue = self._queue, []
        group: list[tuple[_QueuedTransaction, TransactionResult]] = []
        for transaction in queued:
            if transaction.outcome.done():
                continue  # the caller was cancelled
            try:
                group.append((transaction, state.run(transaction.propose)))
            except UnsettledWrite:
                self._queue.append(transaction)
            except Exception as error:  # noqa: BLE001 - raised to the caller of the transaction
                transaction.outcome.set_exception(error)
        return group

    def _write_to_journal(self, write: Callable[[], None]) -> None:
        """Write, after the conversion of the format if that is still to be written; runs in the writer thread."""
        if self._unwritten_conversion is not None:
            self._journal.convert(self._unwritten_conversion.batch, self._unwritten_conversion.revision)
            self._unwritten_conversion = None
        write()

    def _on_written(self, group: StagedGroup, batch: CommitBatch, failure: Exception | None) -> None:
        self._is_trying = False
        if failure is None:
            self._faults.clear()
            self._acknowledge(group, batch.events)
            return
        if isinstance(failure, errors.StoreError):
            self.report_fault(failure)
        self._stale += batch.stale
        for transaction, _ in group:
            if not transaction.outcome.done():
                transaction.outcome.set_exception(failure)
        self._start_next()

    def _acknowledge(self, group: StagedGroup, events: Iterable[StoreEvent]) -> None:
        self._stale += self._apply_events(events)
        for transaction, written in group:
            if not transaction.outcome.done():
                transaction.outcome.set_result(written)
        self._start_next()

    def _start_next(self) -> None:
        """Start the next group, after the callers just answered had a turn to join it."""
        self._busy = False
        if self._queue:
            self._start()
        elif self._idle and not self._idle.done():
            self._idle.set_result(None)

    def _try_again(self) -> None:
        self._is_trying = True
        self._start()
