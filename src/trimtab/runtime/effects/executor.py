"""Carries out the effects that a controller returned: writes to the host and to members, events, process memory.

Effects are carried out in the order in which they were yielded, and the first that fails ends the reconcile. An `Ensure`
is compared with the object that the controller saw, and its patch carries that object's resourceVersion; server-side
apply and replace send the whole object. `runtime/effects/host_effects.py` and `runtime/effects/member_effects.py` do the writing.
"""

import itertools
from collections.abc import Callable
from typing import Any, cast

from trimtab.api.value import Key, Object
from trimtab.controllers.autoscaling.pod_use import POD_USE, PodReading
from trimtab.controllers.contract import (
    ACCESS,
    FOREIGN_OBJECTS,
    AccessAnswer,
    CheckAccess,
    Controller,
    CreateCompleted,
    Delete,
    Effect,
    Ensure,
    Fetch,
    FindForeignObjects,
    FollowKind,
    ForeignObjectsAnswer,
    InCluster,
    ReadPodUse,
    RecordEvent,
    RememberInProcess,
    RequeueAfter,
    ReserveCapacity,
    RunScript,
    WriteSequence,
)
from trimtab.runtime.effects.host_effects import HostEffects
from trimtab.runtime.effects.member_effects import MemberEffects
from trimtab.runtime.effects.object_writer import ObjectWriter
from trimtab.runtime.view import ControlPlaneState


class EffectExecutor:
    """Carries out the effects of one controller and counts its writes."""

    def __init__(self, controller: Controller, state: ControlPlaneState, requeue: Callable[[Key], None]) -> None:
        """`requeue` adds a key to the controller's queue: the key of a read is reconciled again with the result."""
        self._state = state
        self._requeue = requeue
        self._writer = ObjectWriter(f"trimtab-{controller.name}", exact_versions=state.writes_exact_versions)
        self._host = HostEffects(controller, state, self._writer)
        self._members = MemberEffects(state, self._writer)

    @property
    def writes(self) -> int:
        return self._writer.writes

    async def execute_all(self, key: Key, effects: list[Effect]) -> None:
        """Carry out the effects in their order; consecutive new objects of one kind in one request where possible."""
        for type_, group in itertools.groupby(effects, type):
            batch = list(group)
            if len(batch) > 1 and issubclass(type_, Object):
                await self._write_all(key, type_, cast("list[Object]", batch))
            else:
                for effect in batch:
                    await self._execute(key, effect)

    async def _write_all(self, key: Key, type_: type[Object], objects: list[Object]) -> None:
        for is_new, group in itertools.groupby(objects, _is_new):
            batch = list(group)
            if not is_new or len(batch) == 1 or not await self._host.create_together(type_, batch):
                for wanted in batch:
                    await self._execute(key, wanted)

    def execute_in_memory(self, key: Key, effect: RememberInProcess[Any, Any] | ReserveCapacity) -> None:
        """Carry out an effect that writes nothing."""
        if isinstance(effect, ReserveCapacity):
            self._state.sources.fleet.reserve(effect)
        else:
            self._state.remember(key, effect)

    async def _execute(self, key: Key, effect: Effect) -> None:
        match effect:
            case RequeueAfter():
                return
            case RecordEvent():
                self._state.recorder.record(effect, self._state.clock.now())
            case RememberInProcess() | ReserveCapacity():
                self.execute_in_memory(key, effect)
            case Fetch() | FollowKind() | CheckAccess() | FindForeignObjects() | ReadPodUse():
                await self._answer(key, effect)
            case RunScript():
                self.ask_script(key, effect)
            case InCluster(cluster, inner):
                has_changed = await self._members.write(cluster, inner)
                if not has_changed and isinstance(inner, Ensure) and inner.recheck_if_unchanged:
                    self._requeue(key)
            case Ensure():
                await self._host.ensure(effect)
            case Delete():
                await self._host.delete(effect)
            case WriteSequence(steps):
                await self._host.write_in_order(steps)
            case CreateCompleted(wanted, by):
                if not await self._state.drafts.queue_of(by).create(wanted):
                    await self._host.write(wanted)
            case _:
                await self._host.write(effect)

    async def _answer(
        self, key: Key, question: Fetch | FollowKind | CheckAccess | FindForeignObjects | ReadPodUse
    ) -> None:
        """Find out what the controller asked for, and reconcile its key again."""
        match question:
            case Fetch(cluster, ref):
                await self._members.fetch(cluster, ref)
            case FollowKind(cluster, api_version, kind):
                await self._members.follow(cluster, api_version, kind)
            case CheckAccess():
                allowed = await self._members.is_access_allowed(question)
                access = AccessAnswer(self._state.steady_clock.now(), allowed)
                self._state.remember(key, RememberInProcess(ACCESS, question, access))
            case FindForeignObjects(cluster, namespace):
                found = await self._members.foreign_objects(cluster, namespace)
                answer = ForeignObjectsAnswer(self._state.clock.now(), found)
                self._state.remember(key, RememberInProcess(FOREIGN_OBJECTS, question, answer))
            case ReadPodUse():
                reading = PodReading(self._state.steady_clock.now(), await self._members.read_pod_use(question))
                self._state.remember(key, RememberInProcess(POD_USE, question, reading))
        self._requeue(key)

    def ask_script(self, key: Key, effect: RunScript) -> None:
        """Let the script run; its key is reconciled again when the answer is there. Nothing waits for it."""
        self._state.sources.scripts.ask(effect.question, lambda: self._requeue(key))


def _is_new(wanted: Object) -> bool:
    """Whether the object does not exist yet."""
    return not wanted.metadata.resource_version
