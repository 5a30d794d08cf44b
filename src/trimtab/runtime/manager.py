"""Runs a set of controllers against one API server: fills the caches, then starts every reconciler."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator

from trimtab.api.kind import find_kind
from trimtab.api.value import Key
from trimtab.client.client import Resource
from trimtab.controllers.contract import Controller
from trimtab.errors import ApiFault
from trimtab.runtime.reconciler import Beat
from trimtab.runtime.view import Surroundings
from trimtab.telemetry import Sample

DISCOVERY_SECONDS = 30.0
log = logging.getLogger("trimtab.manager")

Propagatable = Callable[[Resource], bool]


class Manager:
    """The reconcilers of a set of controllers over one shared cache."""

    def __init__(
        self,
        around: Surroundings,
        controllers: Iterable[Controller],
        *,
        propagatable: Propagatable = lambda _: False,
    ) -> None:
        self.around = around
        self.beats = [Beat(controller, around) for controller in controllers]
        self.looking_afar = [reconciler for reconciler in self.beats if reconciler.controller.member_triggers]
        """The reconcilers that changes in members trigger."""
        self._propagatable = propagatable
        self._tasks: list[asyncio.Task[None]] = []
        self.started = False
        """Whether the caches are filled and the controllers run."""

    async def start(self) -> None:
        """Fill the caches, then start every controller."""
        if not all(reconciler.controller.subjects for reconciler in self.beats):
            await self._discover_patiently()
            self._tasks.append(asyncio.get_running_loop().create_task(self._keep_discovering()))
        for reconciler in self.beats:
            reconciler.watch()
        await self.around.cache.synced()
        for reconciler in self.beats:
            self._tasks.append(
                asyncio.get_running_loop().create_task(reconciler.run(), name=reconciler.controller.name)
            )
        self.started = True

    async def run(self) -> None:
        """Start, and run until cancelled or until a controller's loop ends, which is a bug."""
        try:
            await self.start()
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self.stop()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        self._tasks.clear()
        for reconciler in self.beats:
            reconciler.queue.close()
        await self.around.recorder.close()
        await self.around.cache.close()

    @property
    def idle(self) -> bool:
        """Whether no key is queued or in work and no event is pending."""
        return self.around.recorder.idle and all(reconciler.queue.idle for reconciler in self.beats)

    def samples(self) -> Iterator[Sample]:
        """Reconciles, writes, queue length and failing objects of each controller."""
        for reconciler in self.beats:
            labels = {"controller": reconciler.controller.name}
            yield Sample("trimtab_controller_reconciles_total", reconciler.beats, labels)
            yield Sample("trimtab_controller_writes_total", reconciler.writes, labels)
            yield Sample("trimtab_controller_queue_length", len(reconciler.queue), labels)
            yield Sample("trimtab_controller_failing_objects", reconciler.queue.failing, labels)

    def wake(self, controller: str, key: Key) -> None:
        """Queue a key of one controller."""
        for reconciler in self.beats:
            if reconciler.controller.name == controller:
                reconciler.queue.add(key)

    def look_at_everything(self, *controllers: str) -> None:
        """Queue all subjects of these controllers: a rule that they share has changed."""
        for reconciler in self.beats:
            if reconciler.controller.name in controllers:
                reconciler.look_at_everything()

    async def _discover_patiently(self) -> None:
        while True:
            try:
                await self._discover()
            except (ApiFault, OSError) as fault:
                log.warning("cannot read discovery: %s", fault)
                await asyncio.sleep(1)
            else:
                return

    async def _keep_discovering(self) -> None:
        while True:
            await asyncio.sleep(DISCOVERY_SECONDS)
            with contextlib.suppress(ApiFault, OSError):
                await self._discover()

    async def _discover(self) -> None:
        """Read which kinds users may propagate, and stop watching kinds that are no longer served."""
        served: dict[tuple[str, str], Resource] = {}
        for resource in await self.around.client.resources():
            if {"list", "watch"} <= set(resource.verbs) and self._propagatable(resource):
                served[resource.api_version, resource.kind] = resource
        for removed in self.around.resources.keys() - served.keys():
            if find_kind(*removed) is None:
                self.around.cache.forget(self.around.resources[removed].id)
        self.around.resources.clear()
        self.around.resources.update(served)
        for resource in served.values():
            self.around.cache.table(resource)
