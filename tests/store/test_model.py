"""The store compared with a simple model, in memory and on disk, across restarts."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from trimtab import errors
from trimtab.store.index import Retention
from trimtab.store.records import StoredEntry, StoreEvent
from trimtab.store.store import Store
from trimtab.store.txn import DeleteKey, Operation, PutKey, RevisionMismatch, TransactionResult

PREFIXES = ["/", "/registry/", "/registry//pods/", "/registry//pods/a/", "/registry//secrets/a/x", "/other"]
KEYS = ["/registry//pods/a/x", "/registry//pods/a/y", "/registry//pods/b/x", "/registry//secrets/a/x", "/other", "/o/é"]

keys = st.sampled_from(KEYS)
prefixes = st.sampled_from(PREFIXES)


class PlannedOperation(NamedTuple):
    """An operation whose expected revision is resolved when it is run."""

    key: str
    value: bytes | None
    condition: str


plans = st.builds(
    PlannedOperation,
    keys,
    st.one_of(st.none(), st.binary(max_size=40)),
    st.sampled_from(["any", "current", "absent", "wrong"]),
)
transactions = st.lists(plans, min_size=1, max_size=3, unique_by=lambda plan: plan.key)


class StoreModel(RuleBasedStateMachine):
    """All states by revision, and all events."""

    open_store: Callable[["StoreModel"], Store]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.store = self.open_store()
        self.states: dict[int, dict[str, StoredEntry]] = {1: {}}
        self.current: dict[str, StoredEntry] = {}
        self.events: list[tuple[int, str, bytes | None, bytes | None]] = []
        self.compacted = 1
        self.watches = {prefix: (self.store.watch(prefix), []) for prefix in PREFIXES}

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        self.directory.cleanup()

    def operation(self, plan: PlannedOperation) -> Operation:
        current = self.current.get(plan.key)
        expected = {"any": None, "current": current.mod_revision if current else 0, "absent": 0, "wrong": 10**9}
        if plan.value is None:
            return DeleteKey(plan.key, expected[plan.condition])
        return PutKey(plan.key, plan.value, expected[plan.condition])

    def apply_transaction(self, operations: list[Operation], written: TransactionResult) -> None:
        """Apply one acknowledged transaction to the model; its conditions must hold and its events must match."""
        events = list(written.events)
        for operation in operations:
            current = self.current.get(operation.key)
            if operation.expected is not None:
                assert operation.expected == (current.mod_revision if current else 0)
            if isinstance(operation, DeleteKey) and current is None:
                continue
            event = events.pop(0)
            assert (event.key, event.previous) == (operation.key, current)
            assert event.revision == max(self.states) + 1
            self.apply_event(event, operation)
        assert not events

    def apply_event(self, event: StoreEvent, operation: Operation) -> None:
        if isinstance(operation, PutKey):
            assert event.entry is not None
            created = event.previous.create_revision if event.previous else event.revision
            assert event.entry == StoredEntry(operation.key, operation.value, event.revision, created)
            self.current = self.current | {event.key: event.entry}
        else:
            assert event.entry is None
            self.current = {key: entry for key, entry in self.current.items() if key != event.key}
        self.states[event.revision] = self.current
        self.events.append((event.revision, event.key, event.value, event.prev_value))

    @rule(group=st.lists(transactions, min_size=1, max_size=6))
    def commit_together(self, group: list[list[PlannedOperation]]) -> None:
        """Concurrent transactions have the effect of some order: the order of their revisions."""
        requested = [[self.operation(plan) for plan in transaction] for transaction in group]

        async def together() -> list[Any]:
            return await asyncio.gather(*map(self.store.commit, requested), return_exceptions=True)

        outcomes = self.runner.run(together())
        done = [
            (outcome, operations)
            for outcome, operations in zip(outcomes, requested, strict=True)
            if isinstance(outcome, TransactionResult)
        ]
        for written, operations in sorted(done, key=lambda pair: (pair[0].revision, -len(pair[0].events))):
            if written.events:
                self.apply_transaction(operations, written)
        for outcome in outcomes:
            if not isinstance(outcome, TransactionResult):
                assert isinstance(outcome, RevisionMismatch)
                history = [state.get(outcome.key) for state in self.states.values()]
                assert outcome.current in history

    @rule()
    def close_and_open(self) -> None:
        self.runner.run(self.store.close())
        self.store = self.open_store()
        for prefix, (watch, received) in self.watches.items():
            resumed = max(watch.revision, self.store.compacted_revision)
            received[:] = [event for event in self.events_under(prefix) if event[0] <= resumed]
            self.watches[prefix] = (self.store.watch(prefix, resumed), received)

    @rule(back=st.integers(0, 12))
    def compact(self, back: int) -> None:
        revision = max(self.states) - back
        for watch, _ in self.watches.values():
            revision = min(revision, watch.revision)
        self.store.compact(revision)
        self.compacted = max(self.compacted, revision)
        self.runner.run(asyncio.sleep(0))

    @rule(prefix=prefixes, back=st.integers(0, 15), limit=st.integers(1, 4))
    def list_pages_at_an_old_revision(self, prefix: str, back: int, limit: int) -> None:
        revision = max(self.states) - back
        if revision < self.store.compacted_revision:
            with pytest.raises(errors.Expired):
                self.store.list(prefix, at_revision=revision)
            return
        expected = [entry for key, entry in sorted(self.states[revision].items()) if key.startswith(prefix)]
        found: list[StoredEntry] = []
        while True:
            after = found[-1].key if found else None
            page = self.store.list(prefix, start_after=after, limit=limit, at_revision=revision)
            found += page.entries
            assert page.remaining == len(expected) - len(found)
            if not page.remaining:
                break
        assert found == expected

    @rule(prefix=prefixes, back=st.integers(0, 15))
    def watch_from_an_old_revision(self, prefix: str, back: int) -> None:
        revision = max(self.states) - back
        if revision < self.store.compacted_revision:
            with pytest.raises(errors.Expired):
                self.store.watch(prefix, revision)
            return
        events = self.runner.run(self.store.watch(prefix, revision).next(0))
        received = [(event.revision, event.key, event.value, event.prev_value) for event in events]
        assert received == [event for event in self.events_under(prefix) if event[0] > revision]

    @rule(prefix=prefixes)
    def read_next_events(self, prefix: str) -> None:
        watch, received = self.watches[prefix]
        try:
            events = self.runner.run(watch.next(0))
        except errors.Expired:
            assert watch.revision < self.store.compacted_revision
            received[:] = self.events_under(prefix)
            self.watches[prefix] = (self.store.watch(prefix), received)
            return
        received += ((event.revision, event.key, event.value, event.prev_value) for event in events)
        assert received == self.events_under(prefix)
        assert watch.revision == self.store.revision

    def events_under(self, prefix: str) -> list[tuple[int, str, bytes | None, bytes | None]]:
        return [event for event in self.events if event[1].startswith(prefix)]

    @invariant()
    def current_state_matches_the_model(self) -> None:
        assert self.store.list("/").entries == [self.current[key] for key in sorted(self.current)]
        assert self.store.revision == max(self.states)
        for key in KEYS:
            assert self.store.get(key) == self.current.get(key)
        for prefix in PREFIXES:
            assert self.store.count(prefix) == sum(key.startswith(prefix) for key in self.current)


class MemoryModel(StoreModel):
    def open_store(self) -> Store:
        return getattr(self, "store", None) or Store(Retention(revisions=20))

    def close_and_open(self) -> None:
        """A store in memory cannot be reopened."""


class DiskModel(StoreModel):
    def open_store(self) -> Store:
        return Store.open(Path(self.directory.name), Retention(revisions=20))


quick = settings(max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))
TestInMemory = MemoryModel.TestCase
TestInMemory.settings = quick
TestOnDisk = DiskModel.TestCase
TestOnDisk.settings = quick
