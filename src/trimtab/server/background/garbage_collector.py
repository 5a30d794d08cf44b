"""Garbage collection: dependents of deleted owners, owners that wait for them, contents of terminating namespaces."""

import asyncio
import logging
from collections.abc import Iterator
from typing import NamedTuple

from trimtab.errors import ApiError, Conflict, NotFound, StorageFailed
from trimtab.server.auth.user import Caller
from trimtab.server.background.namespace_contents import NamespaceContents
from trimtab.server.background.object_changes import ChangeObject, change_object, without_finalizer, without_owners
from trimtab.server.background.object_metadata import (
    FOREGROUND,
    ORPHAN,
    ObjectMeta,
    decode_metadata,
    is_in_deletion,
    read_metadata,
)
from trimtab.server.background.ownership_graph import OwnershipGraph
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request import large_objects
from trimtab.server.request.options import DeleteOptions
from trimtab.server.resources import ObjectPath
from trimtab.server.storage.object_codec import written_metadata
from trimtab.store.keys import ROOT, key_below, parse_object_key, resource_prefix
from trimtab.store.records import StoreEvent

log = logging.getLogger("trimtab.garbage_collector")

_NAMESPACES = resource_prefix("", "namespaces")
_RETRY_SECONDS = 1.0
_PARALLEL_TASKS = 32


class CollectorTask(NamedTuple):
    """An object to check."""

    action: str
    """`dependent`, `owner` or `namespace`."""
    key: str


class GarbageCollector:
    """Watches all changes; tasks that cannot be done yet are retried."""

    def __init__(self, resource_store: ResourceStore, namespace_grace_seconds: float = 0.0) -> None:
        """`namespace_grace_seconds` pass before a deleted namespace is emptied, and between two failed attempts."""
        self._resource_store = resource_store
        self._store = resource_store.store
        self._caller = Caller(user_agent="kube-controller-manager")
        self._graph = OwnershipGraph(self._store, resource_store.catalogue)
        self._namespace_contents = NamespaceContents(resource_store, self._caller, namespace_grace_seconds)
        self._waiting_owner_uids: set[str] = set()
        """Uids of owners in deletion that wait for their dependents."""

    async def run(self) -> None:
        self._graph.clear()  # after a restart the deletion of an owner may have been missed
        self._waiting_owner_uids.clear()
        watch = self._store.watch(ROOT, self._store.revision)
        tasks = dict.fromkeys(self._initial_tasks())
        while True:
            if tasks:
                tasks = dict.fromkeys(await self._process(list(tasks)))
            for event in await watch.next(_RETRY_SECONDS if tasks else None):
                if self._may_need_tasks(event):
                    tasks.update(dict.fromkeys(self._tasks_for_event(event)))

    async def _process(self, tasks: list[CollectorTask]) -> list[CollectorTask]:
        """Process the tasks concurrently, so that they share commits; returns those to retry."""
        if self._store.fault is not None:
            return tasks  # the store refuses writes, and finds out itself when it can write again
        # Nearly every dependent is new and has its owner: check that here, without a task for each.
        tasks = [
            task for task in tasks if task.action != "dependent" or await self._find_deletion(task.key) is not None
        ]
        done: list[bool] = []
        for start in range(0, len(tasks), _PARALLEL_TASKS):
            done += await asyncio.gather(*map(self._process_task, tasks[start : start + _PARALLEL_TASKS]))
        return [task for task, is_done in zip(tasks, done, strict=True) if not is_done]

    def _initial_tasks(self) -> Iterator[CollectorTask]:
        for entry in self._store.list(ROOT).entries:
            yield from self._tasks_for_object(entry.key, decode_metadata(entry.value))

    def _may_need_tasks(self, event: StoreEvent) -> bool:
        """Whether a change concerns owners or dependents; nearly no write does."""
        written = written_metadata(event)
        if written is None or self._graph.has_owners(event.key):
            return True
        return bool(written.get("ownerReferences") or written.get("deletionTimestamp"))

    def _tasks_for_event(self, event: StoreEvent) -> Iterator[CollectorTask]:
        value = event.value
        if value is None:
            deleted = decode_metadata(event.prev_value or b"")
            yield from self._waiting_owners(event)
            self._graph.forget(event.key)
            self._waiting_owner_uids.discard(deleted.uid)
            for key in self._graph.dependents_of(deleted.uid):
                yield CollectorTask("dependent", key)
            if deleted.namespace:
                yield from self._namespace_tasks(deleted.namespace)
            return
        yield from self._waiting_owners(event)
        written = written_metadata(event)
        meta = decode_metadata(value) if written is None else read_metadata(written)
        yield from self._tasks_for_object(event.key, meta)

    def _tasks_for_object(self, key: str, meta: ObjectMeta) -> Iterator[CollectorTask]:
        owners = tuple(owner.uid for owner in meta.owner_references or ())
        if self._graph.note(key, owners) and owners:  # the deletion of a former owner has its own event
            yield CollectorTask("dependent", key)
        if meta.deletion_timestamp:
            if {FOREGROUND, ORPHAN} & set(meta.finalizers or ()):
                self._waiting_owner_uids.add(meta.uid)
                yield CollectorTask("owner", key)
            if key.startswith(_NAMESPACES):
                yield CollectorTask("namespace", key)

    def _waiting_owners(self, event: StoreEvent) -> Iterator[CollectorTask]:
        """Owners in foreground deletion are checked again when a dependent changed or was deleted."""
        before = event.prev_value
        if before is None or self._waiting_owner_uids.isdisjoint(self._graph.owners_of(event.key)):
            return
        meta = decode_metadata(before)
        for owner in meta.owner_references or ():
            found = self._graph.find_owner(owner, meta.namespace)
            if found is not None and is_in_deletion(found[1]):
                yield CollectorTask("owner", found[0].key)

    def _namespace_tasks(self, namespace: str) -> Iterator[CollectorTask]:
        entry = self._store.get(key_below(_NAMESPACES, namespace))
        if entry is not None and is_in_deletion(entry.value):
            yield CollectorTask("namespace", entry.key)

    def _path_of(self, key: str) -> ObjectPath | None:
        found = parse_object_key(key)
        served = self._resource_store.catalogue.find_preferred(found.group, found.resource)
        return ObjectPath(served, found.namespace, found.name) if served is not None else None

    async def _empty_namespace(self, key: str) -> bool:
        return await self._namespace_contents.delete_all(key, self._path_of(key))

    async def _process_task(self, task: CollectorTask) -> bool:
        """Process a task; False to retry later."""
        handler = {
            "dependent": self._collect_dependent,
            "owner": self._release_owner,
            "namespace": self._empty_namespace,
        }[task.action]
        try:
            return await handler(task.key)
        except NotFound:
            return True
        except (Conflict, StorageFailed):  # the store logs its own failures
            return False
        except ApiError as fault:
            log.warning("garbage collection failed and will be retried", extra={"key": task.key, "why": fault.message})
            return False

    async def _collect_dependent(self, key: str) -> bool:
        """Delete an object if none of its owners exists; else remove its references to owners that are gone or going."""
        where, options = self._path_of(key), await self._find_deletion(key)
        if where is not None and options is not None:
            await self._resource_store.delete(where, options, self._caller)
        elif where is not None and (
            lost := await large_objects.run(self._graph.has_many_owners(key), self._graph.lost_owners, key)
        ):
            await self._change(where, lambda old: without_owners(old, lost))
        return True

    async def _find_deletion(self, key: str) -> DeleteOptions | None:
        return await large_objects.run(self._graph.has_many_owners(key), self._graph.deletion_options, key)

    async def _release_owner(self, key: str) -> bool:
        """Remove the finalizer of an owner when its dependents are deleted or orphaned."""
        entry, where = self._store.get(key), self._path_of(key)
        if entry is None or where is None:
            return True
        meta = decode_metadata(entry.value)
        finalizers = meta.finalizers or []
        if ORPHAN in finalizers:
            await self._orphan(meta.uid)
            await self._drop_finalizer(where, ORPHAN)
        elif FOREGROUND in finalizers:
            if any([not await self._collect_dependent(child) for child in self._graph.dependents_of(meta.uid)]):
                return False
            if not self._graph.blocks_deletion(meta.uid):
                await self._drop_finalizer(where, FOREGROUND)
        return True

    async def _orphan(self, uid: str) -> None:
        for key in self._graph.dependents_of(uid):
            where = self._path_of(key)
            if where is not None:
                await self._change(where, lambda old: without_owners(old, {uid}))

    async def _drop_finalizer(self, where: ObjectPath, finalizer: str) -> None:
        await self._change(where, lambda old: without_finalizer(old, finalizer))

    async def _change(self, where: ObjectPath, change: ChangeObject) -> None:
        await change_object(self._resource_store, where, change, self._caller)
