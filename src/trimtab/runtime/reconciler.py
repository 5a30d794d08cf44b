"""Runs one controller: changes in the cache put keys into a queue, and each key is reconciled into effects.

    watch -> cache -> queue -> reconcile (pure function) -> effects -> write -> cache

1. (`runtime/triggers.py`) The cache lists and watches every kind that a controller reads. A change of a subject, or of an object that a `Trigger`
   names, adds keys of subjects to the controller's queue. The queue holds a key once, however many changes concern it,
   and never hands out a key that is still being worked on: two reconciles of one key never overlap.
2. (`runtime/controller_call.py`) The loop takes a key, builds a `View` and calls the controller. Controllers are synchronous, so a reconcile sees one
   consistent state of the cache. A controller with `batch` > 1 gets several subjects in one call. A subject may be a draft
   that another controller wants to create (`runtime/drafts.py`).
3. A task carries out the effects (`runtime/effects/executor.py`). Up to `MAX_CONCURRENT_KEYS` keys of a controller wait for
   their writes at once while the loop goes on reconciling others. A controller declared `serial` writes one key at a
   time, because what one key writes changes what the next one reads. Reconciles that need no write need no task.

How failures are handled:

- Conflict on the host: the object has changed since the effect was computed. The remaining effects are dropped and the
  key is retried with back-off; the reconcile then starts from the newer object. One exception: a typed write of which a
  first patch was accepted is finished if the newer object does not differ in the fields of the next patch.
- API fault, on the host or in a member: it is kept per key as a `ReconcileFault` and is visible as `View.fault` in the next
  reconcile of that key, so that the controller can report it in a status. The key is retried after the fault's
  `retry_after`, or else with back-off, which starts at milliseconds. A success clears the fault.
- Connection failure of the host: logged and retried with back-off; it is not visible as `View.fault`.
- Exception in a controller: logged and retried for that key; the loop and all other keys continue.
- Missing answer of a script: the reconcile ends with the question as its only effect. Nothing is written, the fault of
  the key is kept, and the key is reconciled again when the answer is there (`runtime/script_answers.py`).

The object that the API server returns for a create, patch or replace goes into the cache at once, before the watch
event arrives, so the next reconcile sees it. A deletion on the host is seen when the watch delivers it.
`RememberInProcess` and `ReserveCapacity` effects at the head of the list take effect before the first write: a write
takes time, and another key may be reconciled before it is finished.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Coroutine
from contextvars import ContextVar
from functools import cached_property
from typing import Any, cast

from trimtab.api.value import Key
from trimtab.controllers.contract import (
    Controller,
    Effect,
    ReconcileFault,
    RememberInProcess,
    RequeueAfter,
    ReserveCapacity,
    RunScript,
    equal_priority,
    never,
)
from trimtab.errors import ApiError, Conflict
from trimtab.runtime.cache import CacheEntry
from trimtab.runtime.controller_call import LOG_FIELDS, ControllerCall
from trimtab.runtime.drafts import Draft, with_uid
from trimtab.runtime.effects.executor import EffectExecutor
from trimtab.runtime.effects.member_effects import MemberFault
from trimtab.runtime.observers.reconcile_observers import ReconcileTimes
from trimtab.runtime.queue import WorkQueue
from trimtab.runtime.saved_tables import SavedQueue
from trimtab.runtime.triggers import ChangeTriggers
from trimtab.runtime.view import ControlPlaneState
from trimtab.tasks import LoggedFailure
from trimtab.telemetry import Histogram

MAX_CONCURRENT_KEYS = 16
WRITE_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
MAX_CONCURRENT_KEYS_IN_MEMBERS = 64
"""Keys of a controller that may wait for their writes at once: more for writes to members, which take longer."""
RECONCILES_BEFORE_YIELD = 8
"""Reconciles without a write after which other tasks get a turn of the event loop."""
CONTROLLER_FAILED = "ControllerFailed"
"""What observers of reconciles see for an exception in a controller."""
CONTROLLER: ContextVar[str] = ContextVar("controller", default="")
"""The name of the controller for which the current task runs; tasks inherit it from the task that starts them."""
log = logging.getLogger("trimtab.reconciler")


class Reconciler:
    """The queue and the reconcile loop of one controller."""

    def __init__(self, controller: Controller, state: ControlPlaneState) -> None:
        self.controller = controller
        self._max_concurrent = _max_concurrent_keys(controller)
        self._faults: dict[Key, ReconcileFault] = {}
        self.queue: WorkQueue[Key] = WorkQueue(None if controller.priority is equal_priority else self._rank)
        self.triggers = ChangeTriggers(controller, state, self.queue.add)
        self._call = ControllerCall(controller, state)
        self._drafts = state.drafts.queue_of(controller.name)
        self._drafts.open(self.queue.add)
        self._effects = EffectExecutor(controller, state, self.queue.add)
        self._notes_triggered = controller.predicate is never and not controller.resumes
        self._triggered: set[Key] = set()
        """The keys that triggers have queued so far, where nothing else does: a start queues them by the same triggers."""
        observers = state.reconcile_observers
        self._times = ReconcileTimes(controller.name, observers) if observers else None

    @property
    def reconciles(self) -> int:
        return self._call.count

    @cached_property
    def write_durations(self) -> Histogram:
        """Seconds that the writes of one reconcile took."""
        return Histogram(WRITE_BOUNDS)

    @property
    def writes(self) -> int:
        return self._effects.writes

    def _rank(self, key: Key) -> int:
        entry = self._call.find(key)
        return self.controller.priority(entry.value) if entry else 0

    def save(self, now: float) -> SavedQueue:
        """What the next process has to reconcile although it does not change until then."""
        return SavedQueue(
            unfinished=list({*self.queue.unfinished_keys(), *self._triggered}),
            timers=[(key, now + left) for key, left in self.queue.delays()],
        )

    def resume(self, saved: SavedQueue | None, now: float) -> None:
        """Queue what the process before this one left, and every loaded subject of a controller that does not resume."""
        if saved is None or not (self.controller.resumes or self.controller.predicate is never):
            self.triggers.enqueue_resumed()
        if saved is not None:
            for key in saved.unfinished:
                self.queue.add(key)
            for key, due in saved.timers:
                self.queue.add_after(key, due - now)

    async def run(self) -> None:
        """Reconcile until cancelled; several keys may wait for their writes at once, but no key twice."""
        CONTROLLER.set(self.controller.name)
        running: set[asyncio.Task[None]] = set()
        task_ended = asyncio.Event()

        def on_done(task: asyncio.Task[None]) -> None:
            running.discard(task)
            task_ended.set()

        try:
            for count in itertools.count(1):
                while len(running) >= self._max_concurrent:
                    task_ended.clear()
                    await task_ended.wait()
                keys = await self.queue.take(self.controller.batch)
                if self._times is not None:
                    self._times.begin(keys, self._call.find)
                if self._notes_triggered:
                    self._triggered.update(keys)
                results = [
                    (key, effects)
                    for key, effects in self._call.reconcile(keys, self._faults)
                    if not self._finish_without_writes(key, effects) and effects is not None
                ]
                if results:
                    task = asyncio.get_running_loop().create_task(self._execute(results))
                    running.add(task)
                    task.add_done_callback(on_done)
                elif count % RECONCILES_BEFORE_YIELD == 0:
                    await asyncio.sleep(0)  # a long run of keys that need no write must not block the event loop
        finally:
            for task in running:
                task.cancel()

    def _finish_without_writes(self, key: Key, effects: list[Effect] | None) -> bool:
        """Finish a key whose effects need no write, so that it needs no task; returns whether it is finished.

        Effects on memory at the head of the list take effect now: the next reconcile runs before the first write, and
        has to see the slot or the capacity that this one took.
        """
        if effects is None:
            self.queue.retry(key)
            self._observe_failure(key, CONTROLLER_FAILED)
            self._end(key)
            return True
        if effects and type(first := effects[0]) is RunScript:
            self._effects.ask_script(key, first)
            self._end(key)
            return True
        while effects and (type(first := effects[0]) is RememberInProcess or type(first) is ReserveCapacity):
            self._effects.execute_in_memory(key, first)
            del effects[0]
        for effect in effects:
            if type(effect) is not RequeueAfter:
                return False
        self._record_success(key, effects)
        self._end(key)
        return True

    def _end(self, key: Key, *, had_effects: bool = False) -> None:
        """The reconcile of the key has ended: the key may be reconciled again."""
        if self._times is not None:
            self._times.end(key, had_effects=had_effects)
        if self._drafts.by_key:
            self._drafts.end(key)
        self.queue.done(key)

    def _observe_failure(self, key: Key, reason: str) -> None:
        if self._times is not None:
            self._times.fail(key, reason)

    def _record_success(self, key: Key, effects: list[Effect]) -> None:
        """Clear the fault and the back-off of the key, and requeue it after the shortest requested time."""
        self._faults.pop(key, None)
        self.queue.reset_backoff(key)
        for effect in effects:
            if type(effect) is RequeueAfter:
                self.queue.add_after(key, effect.seconds)

    def _execute(self, results: list[tuple[Key, list[Effect]]]) -> Coroutine[Any, Any, None]:
        return self._execute_one(*results[0]) if len(results) == 1 else self._execute_all(results)

    async def _execute_all(self, results: list[tuple[Key, list[Effect]]]) -> None:
        await asyncio.gather(*(self._execute_one(*result) for result in results))

    async def _execute_one(self, key: Key, effects: list[Effect]) -> None:
        """Carry out the effects of one key and record the result."""
        started = time.perf_counter()
        try:
            with LoggedFailure(log, "%s failed on %s", self.controller.name, key, names=LOG_FIELDS) as attempt:
                await self._execute_effects(key, effects)
            if attempt.failure is not None:
                self._observe_failure(key, type(attempt.failure).__name__)
                self.queue.retry(key)
        finally:
            self.write_durations.observe(time.perf_counter() - started)
            self._end(key, had_effects=True)

    async def _execute_effects(self, key: Key, effects: list[Effect]) -> None:
        try:
            if not self._drafts.by_key or (draft := self._drafts.find(key)) is None:
                await self._effects.execute_all(key, effects)
            else:
                await self._create(key, draft, effects)
            self._record_success(key, effects)
        except Conflict as conflict:
            log.debug("conflict, tried again: %s", conflict, extra=self._log_fields(key))
            self._observe_failure(key, conflict.reason)
            self.queue.retry(key)
        except MemberFault as failed:
            self._record_fault(key, failed.fault, failed.cluster)
        except ApiError as fault:
            self._record_fault(key, fault, "")
        except (OSError, TimeoutError) as fault:
            log.warning("cannot reach the API server: %s", fault, extra=self._log_fields(key))
            self._observe_failure(key, type(fault).__name__)
            self.queue.retry(key)

    async def _create(self, key: Key, draft: Draft, effects: list[Effect]) -> None:
        """Create the object of a draft by the first effect, and carry out the others, which may refer to it."""
        try:
            await self._effects.execute_all(key, effects[:1])
        except ApiError as fault:
            self._drafts.end(key, fault)
            raise
        created = cast("CacheEntry", self._call.find(key))
        self._drafts.finish(key)
        await asyncio.sleep(0)  # the events of the controller that wanted the object come first
        await self._effects.execute_all(key, list(with_uid(effects[1:], draft, created.typed.metadata.uid)))

    def _log_fields(self, key: Key, cluster: str = "") -> dict[str, str]:
        fields = {"controller": self.controller.name, "object": str(key)}
        return fields | {"cluster": cluster} if cluster else fields

    def _record_fault(self, key: Key, fault: ApiError, cluster: str) -> None:
        """Keep the fault for the next reconcile of the key, and retry it."""
        log.info("refused: %s", fault.message, extra=self._log_fields(key, cluster))
        self._observe_failure(key, fault.reason)
        earlier = self._faults.get(key)
        self._faults[key] = ReconcileFault(
            fault.code, fault.reason, fault.message, cluster, (earlier.attempts if earlier else 0) + 1
        )
        if fault.retry_after:
            self.queue.add_after(key, fault.retry_after)
        else:
            self.queue.retry(key)


def _max_concurrent_keys(controller: Controller) -> int:
    if controller.serial:
        return 1
    return MAX_CONCURRENT_KEYS_IN_MEMBERS if controller.member_triggers else MAX_CONCURRENT_KEYS
