"""Calls a controller with its subjects and a View, and returns the effects of each key."""

import logging
from typing import Any, TypeAlias, cast

from trimtab.api.profile import Profile
from trimtab.api.value import Key
from trimtab.controllers.contract import Controller, Effect, ReconcileFault, RecordEvent, RunScript
from trimtab.controllers.well_known import profile_namespace
from trimtab.interpret.lua.questions import AnswerPending
from trimtab.runtime.cache import CacheEntry
from trimtab.runtime.drafts import with_creation
from trimtab.runtime.view import ControlPlaneState, LiveView
from trimtab.tasks import LoggedFailure

ReconcileResult: TypeAlias = tuple[Key, list[Effect] | None]
"""A key and its effects; None if the controller failed, which is a bug in it."""
LOG_FIELDS = ("controller", "object")
"""The fields of log lines about a reconcile."""
log = logging.getLogger("trimtab.reconciler")


class ControllerCall:
    """Reconciles subjects of one controller into effects, and counts them."""

    def __init__(self, controller: Controller, state: ControlPlaneState) -> None:
        self._controller = controller
        self._state = state
        self._drafts = state.drafts.queue_of(controller.name)
        self.count = 0

    def find(self, key: Key) -> CacheEntry | None:
        """The cached subject, or the draft of one."""
        table = self._state.cache.by_id.get(key.kind)
        entry = table.entries.get((key.namespace, key.name)) if table else None
        if entry is None and (draft := self._drafts.find(key)) is not None:
            return draft.entry
        return entry

    def reconcile(self, keys: list[Key], faults: dict[Key, ReconcileFault]) -> list[ReconcileResult]:
        """Call the controller for these keys; an exception in it is logged and never ends the loop.

        `faults` are those of the last attempts; the fault of a deleted object is removed.
        """
        self.count += len(keys)
        if self._controller.batch == 1:
            results = [self._reconcile_one(key, faults) for key in keys]
        else:
            results = self._reconcile_batch(keys)
        return [self._with_creation(*result) for result in results] if self._drafts.by_key else results

    def _with_creation(self, key: Key, effects: list[Effect] | None) -> ReconcileResult:
        draft = self._drafts.find(key)
        return key, effects if effects is None or draft is None else with_creation(effects, draft)

    def _reconcile_batch(self, keys: list[Key]) -> list[ReconcileResult]:
        with LoggedFailure(log, "%s failed on a batch from %s", self._controller.name, keys[0], names=LOG_FIELDS):
            try:
                return list(self._effects_of_batch(keys).items())
            except AnswerPending as pending:
                return [(key, [RunScript(pending.question)]) for key in keys]
        return [(key, None) for key in keys]

    def _reconcile_one(self, key: Key, faults: dict[Key, ReconcileFault]) -> ReconcileResult:
        with LoggedFailure(log, "%s failed on %s", self._controller.name, key, names=LOG_FIELDS):
            try:
                return key, self._effects_of(key, faults)
            except AnswerPending as pending:
                return key, [RunScript(pending.question)]
        return key, None

    def _effects_of(self, key: Key, faults: dict[Key, ReconcileFault]) -> list[Effect]:
        entry = self.find(key)
        if entry is None:
            faults.pop(key, None)
            on_deleted = self._controller.on_deleted
            view = LiveView(self._state, profile=self._state.profile_in(key.namespace))
            return list(on_deleted(key, view)) if on_deleted is not None else []
        view = LiveView(self._state, faults.get(key), self._state.profile_in(profile_namespace(entry.raw)))
        effects = self._controller.reconcile(subject_of(entry, self._controller), view)
        if view.profile.record_routine_events:
            return list(effects)
        return [effect for effect in effects if type(effect) is not RecordEvent or not effect.routine]

    def _effects_of_batch(self, keys: list[Key]) -> dict[Key, list[Effect]]:
        """Call the controller once per profile, with all subjects of that profile."""
        effects: dict[Key, list[Effect]] = {key: [] for key in keys}
        by_profile: dict[str, tuple[Profile, list[Any]]] = {}
        by_subject = {}
        for key in keys:
            if entry := self.find(key):
                subject = subject_of(entry, self._controller)
                by_subject[id(subject)] = key
                profile = self._state.profile_in(profile_namespace(entry.raw))
                by_profile.setdefault(profile.name, (profile, []))[1].append(subject)
        for profile, subjects in by_profile.values():
            view = LiveView(self._state, profile=profile)
            for subject, effect in cast("Any", self._controller.reconcile(subjects, view)):
                if profile.record_routine_events or type(effect) is not RecordEvent or not effect.routine:
                    effects[by_subject[id(subject)]].append(effect)
        return effects


def subject_of(entry: CacheEntry | None, controller: Controller) -> Any:
    """What the controller gets: a typed object, or a raw one if it reconciles every propagatable kind."""
    if entry is None:
        return None
    return entry.typed if controller.subjects else entry.raw
