"""Runs one controller: changes in the cache put keys into a queue, and each key is reconciled into effects.

    watch -> cache -> queue -> reconcile (pure function) -> effects -> write -> cache

1. The cache lists and watches every kind that a controller reads. A change of a subject, or of an object that a `Wake`
   names, adds keys of subjects to the controller's queue. The queue holds a key once, however many changes concern it,
   and never hands out a key that is still being worked on: two reconciles of one key never overlap.
2. The loop takes a key, builds a `View` and calls the controller. Controllers are synchronous, so a reconcile sees one
   consistent state of the cache. A controller with `batch` > 1 gets several subjects in one call.
3. A task carries out the effects (`runtime/effects.py`). Up to `MAX_CONCURRENT_KEYS` keys of a controller wait for
   their writes at once while the loop goes on reconciling others. A controller declared `alone` writes one key at a
   time, because what one key writes changes what the next one reads. Reconciles that need no write need no task.

How failures are handled:

- Conflict on the host: the object has changed since the effect was computed. The remaining effects are dropped and the
  key is retried with back-off; the reconcile then starts from the newer object. One exception: a typed write of which a
  first patch was accepted is finished if the newer object does not differ in the fields of the next patch.
- API fault, on the host or in a member: it is kept per key as a `Fault` and is visible as `View.fault` in the next
  reconcile of that key, so that the controller can report it in a status. The key is retried after the fault's
  `retry_after`, or else with back-off, which starts at milliseconds. A success clears the fault.
- Connection failure of the host: logged and retried with back-off; it is not visible as `View.fault`.
- Exception in a controller: logged and retried for that key; the loop and all other keys continue.

The object that the API server returns for a create, patch or replace goes into the cache at once, before the watch
event arrives, so the next reconcile sees it. A deletion on the host is seen when the watch delivers it.
`RememberInProcess` effects at the head of the list take effect before the first write: a write takes time, and another
key may be reconciled before it is finished.
"""

import asyncio
import itertools
import logging
from collections.abc import Coroutine, Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias, cast

from trimtab.api.profile import Profile
from trimtab.api.value import Key, Raw
from trimtab.controllers.contract import (
    Controller,
    Effect,
    ReconcileFault,
    RecordEvent,
    RememberInProcess,
    RequeueAfter,
    Trigger,
    equal_priority,
    never,
)
from trimtab.controllers.well_known import profile_namespace
from trimtab.errors import ApiError, Conflict
from trimtab.runtime.cache import CacheEntry, Table
from trimtab.runtime.effects import EffectExecutor, MemberFault
from trimtab.runtime.queue import WorkQueue
from trimtab.runtime.view import ControlPlaneState, LiveView, TriggerView

ReconcileResult: TypeAlias = tuple[Key, list[Effect] | Exception]
"""A key and its effects, or the exception that the controller raised."""
MAX_CONCURRENT_KEYS = 16
MAX_CONCURRENT_KEYS_IN_MEMBERS = 64
"""Keys of a controller that may wait for their writes at once: more for writes to members, which take longer."""
RECONCILES_BEFORE_YIELD = 8
"""Reconciles without a write after which other tasks get a turn of the event loop."""
CONTROLLER: ContextVar[str] = ContextVar("controller", default="")
"""The name of the controller for which the current task runs; tasks inherit it from the task that starts them."""
log = logging.getLogger("trimtab.reconciler")


class Reconciler:
    """The queue and the reconcile loop of one controller."""

    def __init__(self, controller: Controller, state: ControlPlaneState) -> None:
        self.controller = controller
        self._state = state
        self._max_concurrent = _max_concurrent_keys(controller)
        self._faults: dict[Key, ReconcileFault] = {}
        self.queue: WorkQueue[Key] = WorkQueue(None if controller.priority is equal_priority else self._rank)
        self._effects = EffectExecutor(controller, state, self.queue.add)
        self._trigger_view = TriggerView(state)
        self.reconciles = 0

    @property
    def writes(self) -> int:
        return self._effects.writes

    def _rank(self, key: Key) -> int:
        entry = self._find(key)
        return self.controller.priority(entry.value) if entry else 0

    def _find(self, key: Key) -> CacheEntry | None:
        table = self._state.cache.find_table(key.kind)
        return table.entries.get((key.namespace, key.name)) if table else None

    def _view_of(self, key: Key, entry: CacheEntry | None) -> LiveView:
        return LiveView(self._state, self._faults.get(key), self._profile_of(key, entry))

    def _profile_of(self, key: Key, entry: CacheEntry | None) -> Profile:
        return self._state.profile_in(profile_namespace(entry.raw) if entry is not None else key.namespace)

    def watch(self) -> None:
        """Start to queue keys for changes of the subjects and of the objects that the wakes name."""
        if not self.controller.subjects:
            self._state.cache.add_table_listener(self._watch_template_table)
        for subject in self.controller.subjects:
            table = self._state.cache.table_of(subject)
            if self.controller.predicate is not never or self.controller.on_deleted is not None:
                table.add_listener(partial(self._subject_changed, table.resource.id))
        for wake in self.controller.triggers:
            self._state.cache.table_of(wake.type).add_listener(partial(self._related_changed, wake))

    def _related_changed(self, wake: Trigger, old: CacheEntry | None, new: CacheEntry | None) -> None:
        self._enqueue(wake.keys(old.typed if old else None, new.typed if new else None, self._trigger_view))

    def enqueue_all(self) -> None:
        """Queue every subject, whether it has changed or not."""
        tables = (
            [self._state.cache.table_of(subject) for subject in self.controller.subjects]
            if self.controller.subjects
            else [t for t in self._state.cache.tables() if self._is_template_table(t)]
        )
        for table in tables:
            for name in table.names():
                self.queue.add(Key(table.resource.id, *name))

    def _is_template_table(self, table: Table) -> bool:
        return (table.resource.api_version, table.resource.kind) in self._state.resources

    def _watch_template_table(self, table: Table) -> None:
        if self._is_template_table(table):
            table.add_listener(partial(self._subject_changed, table.resource.id))

    def _subject_changed(self, id_: str, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is None:
            if self.controller.on_deleted is not None:
                self.queue.add(Key(id_, *cast("CacheEntry", old).name))
        elif self.controller.predicate(_subject(old, self.controller), _subject(new, self.controller)):
            self.queue.add(Key(id_, *new.name))

    def member_changed(self, cluster: str, old: Raw | None, new: Raw | None) -> None:
        for wake in self.controller.member_triggers:
            self._enqueue(wake.keys(cluster, old, new, self._trigger_view))

    def _enqueue(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.queue.add(key)

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
                results = [result for result in self._reconcile(keys) if not self._finish_without_writes(*result)]
                if results:
                    task = asyncio.get_running_loop().create_task(self._execute(results))
                    running.add(task)
                    task.add_done_callback(on_done)
                elif count % RECONCILES_BEFORE_YIELD == 0:
                    await asyncio.sleep(0)  # a long run of keys that need no write must not block the event loop
        finally:
            for task in running:
                task.cancel()

    def _reconcile(self, keys: list[Key]) -> list[ReconcileResult]:
        """Call the controller; an exception in it makes the key retry and never ends the loop."""
        self.reconciles += len(keys)
        try:
            if self.controller.batch > 1:
                return self._reconcile_batch(keys)
        except Exception as exception:  # noqa: BLE001 - one of the two places that catch everything
            return [(key, exception) for key in keys]
        return [(key, self._reconcile_one(key)) for key in keys]

    def _reconcile_one(self, key: Key) -> list[Effect] | Exception:
        entry = self._find(key)
        try:
            if entry is None:
                self._faults.pop(key, None)
                return (
                    list(self.controller.on_deleted(key, self._view_of(key, None)))
                    if self.controller.on_deleted
                    else []
                )
            view = self._view_of(key, entry)
            effects = self.controller.reconcile(_subject(entry, self.controller), view)
            return (
                list(effects)
                if view.profile.record_routine_events
                else [one for one in effects if not _is_routine(one)]
            )
        except Exception as exception:  # noqa: BLE001 - one of the two places that catch everything
            return exception

    def _reconcile_batch(self, keys: list[Key]) -> list[ReconcileResult]:
        """Call the controller once per profile, with all subjects of that profile."""
        effects: dict[Key, list[Effect]] = {key: [] for key in keys}
        by_profile: dict[str, tuple[Profile, list[Any]]] = {}
        by_subject = {}
        for key in keys:
            if entry := self._find(key):
                subject = _subject(entry, self.controller)
                by_subject[id(subject)] = key
                profile = self._profile_of(key, entry)
                by_profile.setdefault(profile.name, (profile, []))[1].append(subject)
        for profile, subjects in by_profile.values():
            view = LiveView(self._state, profile=profile)
            for subject, effect in cast("Any", self.controller.reconcile(subjects, view)):
                if profile.record_routine_events or not _is_routine(effect):
                    effects[by_subject[id(subject)]].append(effect)
        return list(effects.items())

    def _finish_without_writes(self, key: Key, effects: list[Effect] | Exception) -> bool:
        """Finish a key whose effects need no write, so that it needs no task; returns whether it is finished.

        `RememberInProcess` effects at the head of the list take effect now: the next reconcile runs before the first
        write, and has to see the slot or the capacity that this one took.
        """
        if isinstance(effects, Exception):
            return False
        while effects and isinstance(effects[0], RememberInProcess):
            self._state.remember(key, *cast("RememberInProcess", effects.pop(0)))
        if not all(isinstance(effect, RequeueAfter) for effect in effects):
            return False
        self._record_success(key, effects)
        self.queue.done(key)
        return True

    def _record_success(self, key: Key, effects: list[Effect]) -> None:
        """Clear the fault and the back-off of the key, and requeue it after the shortest requested time."""
        self._faults.pop(key, None)
        self.queue.reset_backoff(key)
        delays = [effect.seconds for effect in effects if isinstance(effect, RequeueAfter)]
        if delays:
            self.queue.add_after(key, min(delays))

    def _execute(self, results: list[ReconcileResult]) -> Coroutine[Any, Any, None]:
        return self._execute_one(*results[0]) if len(results) == 1 else self._execute_all(results)

    async def _execute_all(self, results: list[ReconcileResult]) -> None:
        await asyncio.gather(*(self._execute_one(*result) for result in results))

    async def _execute_one(self, key: Key, effects: list[Effect] | Exception) -> None:
        """Carry out the effects of one key and record the result."""
        if isinstance(effects, Exception):
            log.error("%s failed on %s", self.controller.name, key, exc_info=effects)
            self.queue.retry(key)
            self.queue.done(key)
            return
        try:
            await self._effects.execute_all(key, effects)
            self._record_success(key, effects)
        except Conflict as conflict:
            log.debug("%s retries %s after a conflict: %s", self.controller.name, key, conflict)
            self.queue.retry(key)
        except MemberFault as failed:
            self._record_fault(key, failed.fault, failed.cluster)
        except ApiError as fault:
            self._record_fault(key, fault, "")
        except (OSError, TimeoutError) as fault:
            log.warning("%s: cannot reach the API server for %s: %s", self.controller.name, key, fault)
            self.queue.retry(key)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("%s failed on %s", self.controller.name, key)
            self.queue.retry(key)
        finally:
            self.queue.done(key)

    def _record_fault(self, key: Key, fault: ApiError, cluster: str) -> None:
        """Keep the fault for the next reconcile of the key, and retry it."""
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


def _is_routine(effect: Effect) -> bool:
    """Whether this is an event that is recorded only if the profile says so."""
    return isinstance(effect, RecordEvent) and effect.routine


def _subject(entry: CacheEntry | None, controller: Controller) -> Any:
    if entry is None:
        return None
    return entry.typed if controller.subjects else entry.raw
