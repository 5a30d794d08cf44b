"""Runs a set of controllers against one API server: caches first, then every beat, until told to stop."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator

from trimtab.api.kind import find_kind
from trimtab.api.value import Key
from trimtab.client.client import Resource
from trimtab.controllers.contract import Controller
from trimtab.errors import ApiFault
from trimtab.runtime.reconciler import Beat, Surroundings
from trimtab.telemetry import Sample

DISCOVERY_SECONDS = 30.0
log = logging.getLogger("trimtab.manager")

Propagatable = Callable[[Resource], bool]


class Manager:
    """The beating heart: one cache, many controllers, one loop."""

    def __init__(
        self,
        around: Surroundings,
        controllers: Iterable[Controller],
        *,
        propagatable: Propagatable = lambda _: False,
    ) -> None:
        self.around = around
        self.beats = [Beat(controller, around) for controller in controllers]
        self.looking_afar = [beat for beat in self.beats if beat.controller.member_wakes]
        """Those whom changes in members concern."""
        self._propagatable = propagatable
        self._tasks: list[asyncio.Task[None]] = []
        self.started = False
        """The caches are filled, and the controllers think."""

    async def start(self) -> None:
        """Fill the caches, then set every controller going."""
        if not all(beat.controller.subjects for beat in self.beats):
            await self._discover_patiently()
            self._tasks.append(asyncio.get_running_loop().create_task(self._keep_discovering()))
        for beat in self.beats:
            beat.watch()
        await self.around.cache.synced()
        for beat in self.beats:
            self._tasks.append(asyncio.get_running_loop().create_task(beat.run(), name=beat.controller.name))
        self.started = True

    async def run(self) -> None:
        """Start, and stay until a controller's loop dies (which is a defect) or we are cancelled."""
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
        for beat in self.beats:
            beat.queue.close()
        await self.around.recorder.close()
        await self.around.cache.close()

    @property
    def idle(self) -> bool:
        """No controller has anything to think about or to tell right now."""
        return self.around.recorder.idle and all(beat.queue.idle for beat in self.beats)

    def samples(self) -> Iterator[Sample]:
        """How much each controller thinks and writes, what waits for it, and what it fails to do."""
        for beat in self.beats:
            name = {"controller": beat.controller.name}
            yield Sample("trimtab_controller_beats_total", beat.beats, name)
            yield Sample("trimtab_controller_writes_total", beat.writes, name)
            yield Sample("trimtab_controller_queue_length", len(beat.queue), name)
            yield Sample("trimtab_controller_failing_objects", beat.queue.failing, name)

    def wake(self, controller: str, key: Key) -> None:
        """Have one controller look at one object soon."""
        for beat in self.beats:
            if beat.controller.name == controller:
                beat.queue.add(key)

    def look_at_everything(self, *controllers: str) -> None:
        """Have these controllers look at all their objects again: a rule they share has changed."""
        for beat in self.beats:
            if beat.controller.name in controllers:
                beat.look_at_everything()

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
        """Learn which kinds users may propagate; kinds that vanished are forgotten."""
        served: dict[tuple[str, str], Resource] = {}
        for resource in await self.around.client.resources():
            if {"list", "watch"} <= set(resource.verbs) and self._propagatable(resource):
                served[resource.api_version, resource.kind] = resource
        for gone in self.around.resources.keys() - served.keys():
            if find_kind(*gone) is None:
                self.around.cache.forget(self.around.resources[gone].id)
        self.around.resources.clear()
        self.around.resources.update(served)
        for resource in served.values():
            self.around.cache.table(resource)
