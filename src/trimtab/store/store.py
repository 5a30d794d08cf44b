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
from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from trimtab import errors
from trimtab.store.index import Index, Keep, too_old
from trimtab.store.records import Entry, Event, Page
from trimtab.store.sqlite import Batch, Journal, damaged
from trimtab.store.txn import ABSENT, Delete, Draft, Operation, Proposal, Put, Unsettled, Written
from trimtab.store.watch import Watch
from trimtab.store.writer_thread import Scribe

TURNS_TO_JOIN = 4


class _Waiting(NamedTuple):
    """A queued transaction and the future of its result."""

    propose: Proposal
    outcome: "asyncio.Future[Written]"


class Store:
    """Keys like `/registry/<group>/<resource>/<namespace>/<name>`, values of bytes; used from one event loop.

    Without a journal everything is in memory and a commit ends without waiting, also in virtual time.
    """

    def __init__(self, keep: Keep = Keep(), journal: Journal | None = None) -> None:  # noqa: B008 - a frozen value
        self.fault: errors.StoreFault | None = None  # why the last write failed; None again after a successful one
        self._index = Index(keep)
        self._journal = journal
        self._scribe = Scribe() if journal else None
        self._queue: list[_Waiting] = []
        self._stale: list[int] = []
        self._busy = False
        self._closing = False
        self._idle: asyncio.Future[None] | None = None
        self._born: float | None = None

    @classmethod
    def open(cls, directory: Path, keep: Keep = Keep()) -> Self:  # noqa: B008 - a frozen value
        """The store in a data directory, created if it does not exist; `errors.StoreFault` if it cannot be used."""
        journal = Journal(directory)
        store = cls(keep, journal)
        try:
            store._index.restore(journal.rows(), journal.compacted())
        except LookupError as error:
            journal.close()
            raise damaged(journal.path, str(error)) from error
        except errors.StoreFault:
            journal.close()
            raise
        return store

    @property
    def revision(self) -> int:
        return self._index.revision

    @property
    def compacted(self) -> int:
        return self._index.compacted

    def get(self, key: str) -> Entry | None:
        return self._index.entries.get(key)

    def list(
        self, prefix: str, *, start_after: str | None = None, limit: int | None = None, at_revision: int | None = None
    ) -> Page:
        """Entries in key order; no limit (or 0) means all, no revision means the current one."""
        return self._index.page(prefix, start_after, limit, at_revision)

    def count(self, prefix: str) -> int:
        return self._index.count(prefix)

    def watch(self, prefix: str, from_revision: int | None = None, *, limit: int = 1000) -> Watch:
        """Events after `from_revision` (default: the current revision), at most `limit` at a time."""
        revision = self.revision if from_revision is None else from_revision
        if revision < self.compacted:
            raise too_old(revision, self.compacted)
        return Watch(self._index, prefix, revision, limit)

    def commit(self, operations: Iterable[Operation]) -> Coroutine[Any, Any, Written]:
        """All operations or none; raises `RevisionMismatch` when a condition does not hold."""
        staged = tuple(operations)
        return self.transact(lambda _: staged)

    async def transact(self, propose: Proposal) -> Written:
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
        outcome: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(propose, outcome))
        self._kick()
        return await outcome

    async def create(self, key: str, value: bytes) -> Entry:
        return _entry(await self.commit([Put(key, value, ABSENT)]))

    async def update(self, key: str, value: bytes, expected: int) -> Entry:
        return _entry(await self.commit([Put(key, value, expected)]))

    async def delete(self, key: str, expected: int | None = None) -> Event | None:
        """The deletion, or None if the key did not exist."""
        written = await self.commit([Delete(key, expected)])
        return written.events[0] if written.events else None

    def compact(self, revision: int) -> None:
        """Drop the history up to `revision`; the limits of `Retention` do the same automatically."""
        self._stale += self._index.compact(revision)
        if self._journal is None:
            self._stale.clear()
        elif self._stale and not self._closing:
            self._kick()

    async def close(self) -> None:
        """Finish accepted transactions, refuse new ones, end all watches."""
        if self._closing:
            return
        self._closing = True
        if self._journal and self._scribe:
            if self._busy:
                self._idle = asyncio.get_running_loop().create_future()
                await self._idle
            await self._scribe.done(self._journal.close)
            self._scribe.stop()
        self._index.close()

    def _kick(self) -> None:
        """Start a group commit, unless one is in progress."""
        if not self._busy:
            self._busy = True
            self._gather(TURNS_TO_JOIN)

    def _gather(self, turns: int) -> None:
        """Let the loop run a few turns before the group is written, so that concurrent writers join it.

        In a busy loop a turn takes long and many writers join; in an idle loop the turns take no time.
        """
        if turns:
            asyncio.get_running_loop().call_soon(self._gather, turns - 1)
        else:
            self._dispatch()

    def _dispatch(self) -> None:
        draft = Draft(self._index)
        group = self._judge(draft)
        if not draft.events and not self._stale:
            self._settle(group, ())
            return
        batch = Batch(draft.events, self._stale, self._index.compacted)
        self._stale = []
        assert self._journal is not None
        assert self._scribe is not None
        self._scribe.do(partial(self._journal.write, batch), partial(self._finish, group, batch))

    def _judge(self, draft: Draft) -> Sequence[tuple[_Waiting, Written]]:
        """Stage the queue in order; refuse at once what the durable state refuses."""
        queued, self._queue = self._queue, []
        group: list[tuple[_Waiting, Written]] = []
        for transaction in queued:
            if transaction.outcome.done():
                continue  # the caller was cancelled
            try:
                group.append((transaction, draft.run(transaction.propose)))
            except Unsettled:
                self._queue.append(transaction)
            except Exception as error:  # noqa: BLE001 - raised to the caller of the transaction
                transaction.outcome.set_exception(error)
        return group

    def _finish(self, group: Sequence[tuple[_Waiting, Written]], batch: Batch, failure: Exception | None) -> None:
        if failure is None:
            self.fault = None
            self._settle(group, batch.events)
            return
        if isinstance(failure, errors.StoreFault):
            self.fault = failure
        self._stale += batch.stale
        for transaction, _ in group:
            if not transaction.outcome.done():
                transaction.outcome.set_exception(failure)
        self._rest()

    def _settle(self, group: Sequence[tuple[_Waiting, Written]], events: Iterable[Event]) -> None:
        self._apply(events)
        for transaction, written in group:
            if not transaction.outcome.done():
                transaction.outcome.set_result(written)
        self._rest()

    def _apply(self, events: Iterable[Event]) -> None:
        self._index.apply(events)
        stale = self._index.trim(self._now())
        if self._journal:
            self._stale += stale

    def _rest(self) -> None:
        """Start the next group, after the callers just answered had a turn to join it."""
        self._busy = False
        if self._queue:
            self._kick()
        elif self._idle and not self._idle.done():
            self._idle.set_result(None)

    def _now(self) -> float:
        """Seconds since the first write after opening; history found on disk counts as that old."""
        now = asyncio.get_running_loop().time()
        if self._born is None:
            self._born = now
        return now - self._born


def _entry(written: Written) -> Entry:
    entry = written.events[0].entry
    assert entry is not None
    return entry
