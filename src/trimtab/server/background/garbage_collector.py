"""Garbage collection: dependents of deleted owners, owners that wait for them, contents of terminating namespaces."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from trimtab.api.value import Raw
from trimtab.errors import ApiError, Conflict, NotFound, StorageFailed
from trimtab.server.auth.user import Caller
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request import large_objects
from trimtab.server.request.options import DeleteOptions, ListOptions, WriteOptions
from trimtab.server.resources import ObjectPath, ResourceCatalogue, ServedResource
from trimtab.store.keys import ROOT, key_below, parse_object_key, resource_prefix
from trimtab.store.records import StoreEvent

log = logging.getLogger("trimtab.garbage_collector")

_NAMESPACES = resource_prefix("", "namespaces")
_RETRY_SECONDS = 1.0
_PARALLEL_TASKS = 32
_MAX_OWNERS_IN_LOOP = 500
"""Owners of an object that are looked for in the event loop, about five microseconds each."""
ChangeObject = Callable[[Raw], Raw]
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


class _Owner(msgspec.Struct, rename="camel"):
    uid: str = ""
    name: str = ""
    kind: str = ""
    api_version: str = ""
    block_owner_deletion: bool | None = None


class _ObjectMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    namespace: str = ""
    owner_references: list[_Owner] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _PartialMetadata(msgspec.Struct):
    metadata: _ObjectMeta


_decoder = msgspec.json.Decoder(_PartialMetadata)


def _decode_metadata(value: bytes) -> _ObjectMeta:
    return _decoder.decode(value).metadata


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
        self._namespace_grace = timedelta(seconds=namespace_grace_seconds)
        self._next_attempts: dict[str, datetime] = {}
        """When to try again to empty a namespace."""
        self._catalogue: ResourceCatalogue = resource_store.catalogue
        self._dependents: dict[str, set[str]] = {}
        self._owners: dict[str, tuple[str, ...]] = {}
        self._waiting_owner_uids: set[str] = set()
        """Uids of owners in deletion that wait for their dependents."""
        self._caller = Caller(user_agent="kube-controller-manager")

    async def run(self) -> None:
        store = self._resource_store.store
        for cache in (self._dependents, self._owners, self._waiting_owner_uids):
            cache.clear()  # after a restart the deletion of an owner may have been missed
        watch = store.watch(ROOT, store.revision)
        tasks = dict.fromkeys(self._initial_tasks())
        while True:
            tasks = dict.fromkeys(await self._process(list(tasks)))
            for event in await watch.next(_RETRY_SECONDS if tasks else None):
                tasks.update(dict.fromkeys(self._tasks_for_event(event)))

    async def _process(self, tasks: list[CollectorTask]) -> list[CollectorTask]:
        """Process the tasks concurrently, so that they share commits; returns those to retry."""
        if self._resource_store.store.fault is not None:
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
        for entry in self._resource_store.store.list(ROOT).entries:
            yield from self._tasks_for_object(entry.key, _decode_metadata(entry.value))

    def _tasks_for_event(self, event: StoreEvent) -> Iterator[CollectorTask]:
        value = event.value
        if value is None:
            deleted = _decode_metadata(event.prev_value or b"")
            yield from self._waiting_owners(event)
            self._forget(event.key)
            self._waiting_owner_uids.discard(deleted.uid)
            for key in sorted(self._dependents.get(deleted.uid, ())):
                yield CollectorTask("dependent", key)
            if deleted.namespace:
                yield from self._namespace_tasks(deleted.namespace)
            return
        if event.key not in self._owners and not _may_concern_owners(value):
            return  # nearly every write
        yield from self._waiting_owners(event)
        yield from self._tasks_for_object(event.key, _decode_metadata(value))

    def _tasks_for_object(self, key: str, meta: _ObjectMeta) -> Iterator[CollectorTask]:
        owners = tuple(owner.uid for owner in meta.owner_references or ())
        if owners != self._owners.get(key, ()):  # the deletion of a former owner has its own event
            self._forget(key)
            if owners:
                self._owners[key] = owners
                yield CollectorTask("dependent", key)
            for uid in owners:
                self._dependents.setdefault(uid, set()).add(key)
        if meta.deletion_timestamp:
            if {_FOREGROUND, _ORPHAN} & set(meta.finalizers or ()):
                self._waiting_owner_uids.add(meta.uid)
                yield CollectorTask("owner", key)
            if key.startswith(_NAMESPACES):
                yield CollectorTask("namespace", key)

    def _forget(self, key: str) -> None:
        for uid in self._owners.pop(key, ()):
            dependents = self._dependents.get(uid)
            if dependents:
                dependents.discard(key)
                if not dependents:
                    del self._dependents[uid]

    def _waiting_owners(self, event: StoreEvent) -> Iterator[CollectorTask]:
        """Owners in foreground deletion are checked again when a dependent changed or was deleted."""
        before = event.prev_value
        if before is None or self._waiting_owner_uids.isdisjoint(self._owners.get(event.key, ())):
            return
        meta = _decode_metadata(before)
        for owner in meta.owner_references or ():
            found = self._find_owner(owner, meta.namespace)
            if found is not None and _is_in_deletion(found[1]):
                yield CollectorTask("owner", found[0].key)

    def _namespace_tasks(self, namespace: str) -> Iterator[CollectorTask]:
        entry = self._resource_store.store.get(key_below(_NAMESPACES, namespace))
        if entry is not None and _is_in_deletion(entry.value):
            yield CollectorTask("namespace", entry.key)

    def _find_owner(self, owner: _Owner, namespace: str) -> tuple[ObjectPath, bytes] | None:
        """The owner, if an object with its name and uid exists."""
        served = self._resource_of_owner(owner)
        if served is None:
            return None
        where = ObjectPath(served, namespace if served.kind.namespaced else "", owner.name)
        entry = self._resource_store.store.get(where.key)
        if entry is None or _decode_metadata(entry.value).uid != owner.uid:
            return None
        return where, entry.value

    def _resource_of_owner(self, owner: _Owner) -> ServedResource | None:
        """The kind of an owner, in the version of the reference or in another."""
        if (found := self._catalogue.find_kind(owner.api_version, owner.kind)) is not None:
            return found
        group = owner.api_version.rpartition("/")[0]
        return self._catalogue.find_kind_in_any_version(group, owner.kind)

    def _path_of(self, key: str) -> ObjectPath | None:
        found = parse_object_key(key)
        served = self._catalogue.find_preferred(found.group, found.resource)
        return ObjectPath(served, found.namespace, found.name) if served is not None else None

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
            lost := await large_objects.run(self._has_many_owners(key), self._lost_owners, key)
        ):
            await self._change(where, lambda old: _without_owners(old, lost))
        return True

    def _lost_owners(self, key: str) -> frozenset[str]:
        """The uids of owners that no longer exist or wait for their dependents, of an object that has another one."""
        entry = self._resource_store.store.get(key)
        meta = _decode_metadata(entry.value) if entry is not None else None
        owners = (meta.owner_references or ()) if meta is not None and not meta.deletion_timestamp else ()
        if meta is None or len(owners) < 2 or any(self._resource_of_owner(owner) is None for owner in owners):
            return frozenset()
        found = {owner.uid: self._find_owner(owner, meta.namespace) for owner in owners}
        lost = {uid for uid, owner in found.items() if owner is None or self._in_foreground(owner[1])}
        return frozenset(lost) if len(lost) < len(found) else frozenset()

    def _has_many_owners(self, key: str) -> bool:
        """Whether looking for the owners of an object takes long; a thread may do it, because it only reads."""
        return len(self._owners.get(key, ())) > _MAX_OWNERS_IN_LOOP

    async def _find_deletion(self, key: str) -> DeleteOptions | None:
        return await large_objects.run(self._has_many_owners(key), self._deletion_options, key)

    def _deletion_options(self, key: str) -> DeleteOptions | None:
        """The delete options for an object without owners; None if it has one."""
        entry = self._resource_store.store.get(key)
        if entry is None:
            return None
        meta = _decode_metadata(entry.value)
        if meta.deletion_timestamp or not meta.owner_references:
            return None
        if any(self._resource_of_owner(owner) is None for owner in meta.owner_references):
            return None  # an owner of a kind that is not served may still exist
        found = (self._find_owner(owner, meta.namespace) for owner in meta.owner_references)
        existing = [owner for owner in found if owner is not None]
        ending = [owner for owner in existing if self._in_foreground(owner[1])]
        if existing and len(ending) < len(existing):
            return None
        return DeleteOptions("Foreground" if ending and self._dependents.get(meta.uid) else "Background", uid=meta.uid)

    @staticmethod
    def _in_foreground(value: bytes) -> bool:
        meta = _decode_metadata(value)
        return bool(meta.deletion_timestamp) and _FOREGROUND in (meta.finalizers or ())

    async def _release_owner(self, key: str) -> bool:
        """Remove the finalizer of an owner when its dependents are deleted or orphaned."""
        entry, where = self._resource_store.store.get(key), self._path_of(key)
        if entry is None or where is None:
            return True
        meta = _decode_metadata(entry.value)
        finalizers = meta.finalizers or []
        if _ORPHAN in finalizers:
            await self._orphan(meta.uid)
            await self._drop_finalizer(where, _ORPHAN)
        elif _FOREGROUND in finalizers:
            if any([not await self._collect_dependent(child) for child in sorted(self._dependents.get(meta.uid, ()))]):
                return False
            if not self._is_blocked(meta.uid):
                await self._drop_finalizer(where, _FOREGROUND)
        return True

    def _is_blocked(self, uid: str) -> bool:
        for key in self._dependents.get(uid, ()):
            entry = self._resource_store.store.get(key)
            if entry is None:
                continue
            owners = _decode_metadata(entry.value).owner_references or ()
            if any(owner.uid == uid and owner.block_owner_deletion for owner in owners):
                return True
        return False

    async def _orphan(self, uid: str) -> None:
        for key in sorted(self._dependents.get(uid, ())):
            where = self._path_of(key)
            if where is not None:
                await self._change(where, lambda old: _without_owners(old, {uid}))

    async def _drop_finalizer(self, where: ObjectPath, finalizer: str) -> None:
        def without_finalizer(old: Raw) -> Raw:
            rest = [name for name in old["metadata"].get("finalizers") or () if name != finalizer]
            return {**old, "metadata": {**old["metadata"], "finalizers": rest}}

        await self._change(where, without_finalizer)

    async def _change(self, where: ObjectPath, change: ChangeObject) -> None:
        def with_change(old: Raw) -> DesiredObject:
            return DesiredObject(change(old))

        await self._resource_store.change(
            where, with_change, WriteOptions(field_manager=self._caller.user_agent), self._caller
        )

    def _has_undeleted(self, prefix: str) -> bool:
        """Whether an object there is not in deletion yet; checked whenever an object of the namespace is deleted."""
        return any(not _is_in_deletion(entry.value) for entry in self._resource_store.store.list(prefix).entries)

    async def _empty_namespace(self, key: str) -> bool:
        """Delete the contents of a terminating namespace, then finalize it."""
        entry, where = self._resource_store.store.get(key), self._path_of(key)
        if entry is None or where is None or not _decode_metadata(entry.value).deletion_timestamp:
            self._next_attempts.pop(key, None)
            return True
        if self._namespace_grace:
            now = self._resource_store.clock.now()
            if now < self._next_attempts.setdefault(key, now + self._namespace_grace):
                return False
            del self._next_attempts[key]  # another attempt begins a new wait
        name = where.name
        remaining = 0
        for served in self._catalogue.stored_resources():
            if served.kind.namespaced and self._resource_store.store.count(served.collection_prefix(name)):
                if self._has_undeleted(served.collection_prefix(name)):
                    options = DeleteOptions("Background")
                    await self._resource_store.delete_collection(
                        ObjectPath(served, name), ListOptions(), options, self._caller
                    )
                remaining += self._resource_store.store.count(served.collection_prefix(name))
        if remaining:
            self._next_attempts[key] = self._resource_store.clock.now()  # no further wait when the last object is gone
            return True  # deletion of the last object triggers this again
        await self._change(replace(where, subresource="finalize"), lambda old: {**old, "spec": {"finalizers": []}})
        return True


def _without_owners(old: Raw, uids: Collection[str]) -> Raw:
    owners = [owner for owner in old["metadata"].get("ownerReferences") or () if owner.get("uid") not in uids]
    metadata = {**old["metadata"], "ownerReferences": owners}
    if not owners:
        del metadata["ownerReferences"]
    return {**old, "metadata": metadata}


def _may_concern_owners(value: bytes) -> bool:
    """Whether the stored object may have owners or be in deletion; its other fields can have these names as well."""
    return b'"ownerReferences"' in value or b'"deletionTimestamp"' in value


def _is_in_deletion(value: bytes) -> bool:
    """Whether the stored object is in deletion."""
    return _decode_metadata(value).deletion_timestamp is not None
