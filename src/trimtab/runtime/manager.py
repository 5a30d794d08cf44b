"""Runs a set of controllers against one API server: fills the caches, then starts every reconciler."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta

from trimtab.api.kind import find_kind
from trimtab.api.value import Key
from trimtab.client.client import Resource
from trimtab.controllers.contract import Controller
from trimtab.errors import ApiError
from trimtab.runtime.reconciler import Reconciler
from trimtab.runtime.saved_tables import SavedQueue
from trimtab.runtime.view import ControlPlaneState
from trimtab.tasks import stop_tasks
from trimtab.telemetry import HistogramSeries, Sample

DISCOVERY_SECONDS = 30.0
log = logging.getLogger("trimtab.manager")

IsPropagatable = Callable[[Resource], bool]


class ControllerManager:
    """The reconcilers of a set of controllers over one shared cache."""

    def __init__(
        self,
        state: ControlPlaneState,
        controllers: Iterable[Controller],
        *,
        propagatable: IsPropagatable = lambda _: False,
        saved_queues: Mapping[str, SavedQueue] | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        """`saved_queues` are those of the process that saved the caches which are loaded now.

        `on_stop` is called before anything is stopped, if the controllers run.
        """
        self.state = state
        self.reconcilers = [Reconciler(controller, state) for controller in controllers]
        self.member_reconcilers = [
            reconciler for reconciler in self.reconcilers if reconciler.controller.member_triggers
        ]
        """The reconcilers that changes in members trigger."""
        self._propagatable = propagatable
        self._saved_queues = saved_queues
        self._on_stop = on_stop
        self._tasks: list[asyncio.Task[None]] = []
        self.started = False
        """Whether the caches are filled and the controllers run."""

    async def start(self) -> None:
        """Fill the caches, then start every controller."""
        if not all(reconciler.controller.subjects for reconciler in self.reconcilers):
            await self._discover_with_retries()
            self._tasks.append(asyncio.get_running_loop().create_task(self._keep_discovering()))
        for reconciler in self.reconcilers:
            reconciler.triggers.watch()
        self.state.cache.compare_saved()
        await self.state.cache.wait_until_synced()
        if self._saved_queues is not None:
            now = self.state.clock.now().timestamp()
            for reconciler in self.reconcilers:
                reconciler.resume(self._saved_queues.get(reconciler.controller.name), now)
        self.state.clock_listeners.append(self._clock_was_set)
        for reconciler in self.reconcilers:
            self._tasks.append(
                asyncio.get_running_loop().create_task(reconciler.run(), name=reconciler.controller.name)
            )
        self.started = True

    async def run(self, on_started: Callable[[], None] = lambda: None) -> None:
        """Start, and run until cancelled or until a controller's loop ends, which is a bug."""
        try:
            await self.start()
            on_started()
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self.stop()

    def save_queues(self) -> dict[str, SavedQueue]:
        """What is not finished now, by controller."""
        now = self.state.clock.now().timestamp()
        return {reconciler.controller.name: reconciler.save(now) for reconciler in self.reconcilers}

    async def stop(self) -> None:
        if self.started and not any(task.done() for task in self._tasks):
            self._on_stop()
        self.started = False
        await stop_tasks(self._tasks, log)
        self._tasks.clear()
        for reconciler in self.reconcilers:
            reconciler.queue.close()
        await self.state.recorder.close()
        await self.state.cache.close()

    @property
    def is_idle(self) -> bool:
        """Whether no key is queued or in work, no event is pending and no script has to run."""
        services = self.state.recorder.is_idle and self.state.sources.scripts.is_idle
        return services and all(reconciler.queue.is_idle for reconciler in self.reconcilers)

    @property
    def lag(self) -> float:
        """Seconds that a change now takes to pass the queues of all controllers, by their oldest keys; 0 when none runs."""
        return sum(reconciler.queue.oldest_age for reconciler in self.reconcilers) if self.started else 0.0

    def samples(self) -> Iterator[Sample]:
        """Reconciles, writes, queue length and age, and failing objects of each controller."""
        for reconciler in self.reconcilers:
            labels = {"controller": reconciler.controller.name}
            yield Sample("trimtab_controller_reconciles_total", reconciler.reconciles, labels)
            yield Sample("trimtab_controller_writes_total", reconciler.writes, labels)
            yield Sample("trimtab_controller_queue_length", len(reconciler.queue), labels)
            yield Sample("trimtab_controller_queue_age_seconds", reconciler.queue.oldest_age, labels)
            yield Sample("trimtab_controller_failing_objects", reconciler.queue.failing_count, labels)

    def histograms(self) -> Iterator[HistogramSeries]:
        for reconciler in self.reconcilers:
            labels = {"controller": reconciler.controller.name}
            yield "trimtab_controller_write_duration_seconds", labels, reconciler.write_durations

    def enqueue(self, controller: str, key: Key) -> None:
        """Queue a key of one controller."""
        for reconciler in self.reconcilers:
            if reconciler.controller.name == controller:
                reconciler.queue.add(key)

    def enqueue_all(self, *controllers: str) -> None:
        """Queue all subjects of these controllers: a rule that they share has changed."""
        for reconciler in self.reconcilers:
            if reconciler.controller.name in controllers:
                reconciler.triggers.enqueue_all()

    async def _discover_with_retries(self) -> None:
        while True:
            try:
                await self._discover()
            except (ApiError, OSError) as fault:
                log.warning("cannot read discovery: %s", fault)
                await asyncio.sleep(1)
            else:
                return

    async def _keep_discovering(self) -> None:
        while True:
            await asyncio.sleep(DISCOVERY_SECONDS)
            with contextlib.suppress(ApiError, OSError):
                await self._discover()

    def _clock_was_set(self, step: timedelta) -> None:
        """Reconcile what waits for a time again: timers run on the clock for durations, deadlines are wall-clock times.

        Every key is queued once, however far the clock was set, so there is nothing to catch up.
        """
        log.warning("the clock was set by %s; everything that waits for a time is checked", step)
        for reconciler in self.reconcilers:
            reconciler.queue.expire_timers()

    async def _discover(self) -> None:
        """Read which kinds users may propagate, and stop watching kinds that are no longer served."""
        served: dict[tuple[str, str], Resource] = {}
        for resource in await self.state.client.resources():
            if {"list", "watch"} <= set(resource.verbs) and self._propagatable(resource):
                served[resource.api_version, resource.kind] = resource
        for removed in self.state.resources.keys() - served.keys():
            if find_kind(*removed) is None:
                self.state.cache.remove_table(self.state.resources[removed].id)
        self.state.resources.clear()
        self.state.resources.update(served)
        for resource in served.values():
            self.state.cache.table(resource)
