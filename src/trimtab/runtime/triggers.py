"""Maps changes in the cache and in members to the keys that a controller reconciles."""

from collections.abc import Callable
from functools import partial
from typing import cast

from trimtab.api.value import Key, Raw
from trimtab.controllers.contract import Controller, never
from trimtab.runtime.cache import CacheEntry, KeyListener, Table
from trimtab.runtime.view import ControlPlaneState, TriggerView


class ChangeTriggers:
    """Adds the keys of one controller to its queue when something changes that concerns them."""

    def __init__(self, controller: Controller, state: ControlPlaneState, add: Callable[[Key], None]) -> None:
        """`add` adds a key to the queue."""
        self._controller = controller
        self._state = state
        self._add = add
        self._trigger_view = TriggerView(state)

    def watch(self) -> None:
        """Start to queue keys for changes of the subjects and of the objects that the triggers name."""
        if not self._controller.subjects:
            self._state.cache.add_table_listener(self._watch_template_table)
        for subject in self._controller.subjects:
            table = self._state.cache.table_of(subject)
            if self._controller.predicate is not never or self._controller.on_deleted is not None:
                table.add_listener(partial(self._subject_changed, table.resource.id), only_changes=True)
        for trigger in self._controller.triggers:
            table = self._state.cache.table_of(trigger.type)
            table.add_listener(KeyListener(trigger.keys, self._trigger_view, self._add), only_changes=True)

    def enqueue_all(self) -> None:
        """Queue every subject, whether it has changed or not."""
        for table in self._subject_tables():
            for name in table.names():
                self._add(Key(table.resource.id, *name))

    def enqueue_resumed(self) -> None:
        """Queue every subject that is the same as when the caches were saved; the others are queued."""
        for table in self._subject_tables():
            for name, entry in table.entries.items():
                if entry.is_resumed:
                    self._add(Key(table.resource.id, *name))

    def _subject_tables(self) -> list[Table]:
        if self._controller.subjects:
            return [self._state.cache.table_of(subject) for subject in self._controller.subjects]
        return [table for table in self._state.cache.tables() if self._is_template_table(table)]

    def _is_template_table(self, table: Table) -> bool:
        return (table.resource.api_version, table.resource.kind) in self._state.resources

    def _watch_template_table(self, table: Table) -> None:
        if self._is_template_table(table):
            table.add_listener(partial(self._subject_changed, table.resource.id), only_changes=True)

    def _subject_changed(self, id_: str, old: CacheEntry | None, new: CacheEntry | None) -> None:
        if new is None:
            if self._controller.on_deleted is not None:
                self._add(Key(id_, *cast("CacheEntry", old).name))
            return
        predicate = self._controller.predicate
        if self._controller.subjects:
            is_relevant = predicate(old.typed if old is not None else None, new.typed)
        else:
            is_relevant = predicate(old.raw if old is not None else None, new.raw)
        if is_relevant:
            self._add(Key(id_, *new.name))

    def member_changed(self, cluster: str, old: Raw | None, new: Raw | None) -> None:
        """An object in a member was added (old is None), changed, or removed (new is None)."""
        for trigger in self._controller.member_triggers:
            for key in trigger.keys(cluster, old, new, self._trigger_view):
                self._add(key)
