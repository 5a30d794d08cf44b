"""Garbage collection: dependents of deleted owners, owners that wait for them, contents of terminating namespaces."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from trimtab.api.value import Raw
from trimtab.errors import ApiFault, Conflict, NotFound
from trimtab.server.auth.user import Caller
from trimtab.server.registry.object_schema import Wanted
from trimtab.server.registry.resource_store import Verbs
from trimtab.server.request.options import DeleteOptions, ListOptions, WriteOptions
from trimtab.server.resources import Catalogue, Served, Where
from trimtab.store.records import Event

log = logging.getLogger("trimtab.garbage_collector")

ROOT = "/registry/"
_NAMESPACES = "/registry/core/namespaces/"
_RETRY_SECONDS = 1.0
_TOGETHER = 32
Change = Callable[[Raw], Raw]
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


class _Owner(msgspec.Struct, rename="camel"):
    uid: str = ""
    name: str = ""
    kind: str = ""
    api_version: str = ""
    block_owner_deletion: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    namespace: str = ""
    owner_references: list[_Owner] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _Seen(msgspec.Struct):
    metadata: _Meta


_decoder = msgspec.json.Decoder(_Seen)


def _meta(value: bytes) -> _Meta:
    return _decoder.decode(value).metadata


class Task(NamedTuple):
    """An object to check."""

    what: str
    """`dependent`, `owner` or `namespace`."""
    key: str


class Collector:
    """Watches all changes; tasks that cannot be done yet are retried."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._catalogue: Catalogue = verbs.catalogue
        self._dependents: dict[str, set[str]] = {}
        self._owners: dict[str, tuple[str, ...]] = {}
        self._awaited: set[str] = set()
        """Uids of owners in deletion that wait for their dependents."""
        self._caller = Caller(user_agent="kube-controller-manager")

    async def run(self) -> None:
        store = self._verbs.store
        for cache in (self._dependents, self._owners, self._awaited):
            cache.clear()  # after a restart the deletion of an owner may have been missed
        watch = store.watch(ROOT, store.revision)
        tasks = dict.fromkeys(self._first_look())
        while True:
            tasks = dict.fromkeys(await self._undone(list(tasks)))
            for event in await watch.next(_RETRY_SECONDS if tasks else None):
                if self._matters(event):
                    tasks.update(dict.fromkeys(self._noticed(event)))

    async def _undone(self, tasks: list[Task]) -> list[Task]:
        """Process the tasks concurrently, so that they share commits; returns those to retry."""
        # Nearly every dependent is new and has its owner: check that here, without a task for each.
        tasks = [task for task in tasks if task.what != "dependent" or self._end_of(task.key) is not None]
        done: list[bool] = []
        for start in range(0, len(tasks), _TOGETHER):
            done += await asyncio.gather(*map(self._done, tasks[start : start + _TOGETHER]))
        return [task for task, is_done in zip(tasks, done, strict=True) if not is_done]

    def _first_look(self) -> Iterator[Task]:
        for entry in self._verbs.store.list(ROOT).entries:
            if b'"ownerReferences":' in entry.value or b'"deletionTimestamp":' in entry.value:
                yield from self._about(entry.key, _meta(entry.value))

    def _matters(self, event: Event) -> bool:
        """Whether an event may need work: for most events a look at the bytes says no."""
        entry = event.entry
        return entry is None or (
            b'"ownerReferences":' in entry.value or b'"deletionTimestamp":' in entry.value or event.key in self._owners
        )

    def _noticed(self, event: Event) -> Iterator[Task]:
        value = event.value
        if value is None:
            deleted = _meta(event.prev_value or b"")
            yield from self._waiting_owners(event)
            self._forget(event.key)
            self._awaited.discard(deleted.uid)
            for key in sorted(self._dependents.get(deleted.uid, ())):
                yield Task("dependent", key)
            if deleted.namespace:
                yield from self._ending(deleted.namespace)
            return
        yield from self._waiting_owners(event)
        yield from self._about(event.key, _meta(value))

    def _about(self, key: str, meta: _Meta) -> Iterator[Task]:
        owners = tuple(owner.uid for owner in meta.owner_references or ())
        if owners != self._owners.get(key, ()):  # the deletion of a former owner has its own event
            self._forget(key)
            if owners:
                self._owners[key] = owners
                yield Task("dependent", key)
            for uid in owners:
                self._dependents.setdefault(uid, set()).add(key)
        if meta.deletion_timestamp:
            if {_FOREGROUND, _ORPHAN} & set(meta.finalizers or ()):
                self._awaited.add(meta.uid)
                yield Task("owner", key)
            if key.startswith(_NAMESPACES):
                yield Task("namespace", key)

    def _forget(self, key: str) -> None:
        for uid in self._owners.pop(key, ()):
            dependents = self._dependents.get(uid)
            if dependents:
                dependents.discard(key)
                if not dependents:
                    del self._dependents[uid]

    def _waiting_owners(self, event: Event) -> Iterator[Task]:
        """Owners in foreground deletion are checked again when a dependent changed or was deleted."""
        before = event.prev_value
        if before is None or self._awaited.isdisjoint(self._owners.get(event.key, ())):
            return
        meta = _meta(before)
        for owner in meta.owner_references or ():
            found = self._find(owner, meta.namespace)
            if found is not None and b'"deletionTimestamp":' in found[1]:
                yield Task("owner", found[0].key)

    def _ending(self, namespace: str) -> Iterator[Task]:
        entry = self._verbs.store.get(f"{_NAMESPACES}{namespace}")
        if entry is not None and b'"deletionTimestamp":' in entry.value:
            yield Task("namespace", entry.key)

    def _find(self, owner: _Owner, namespace: str) -> tuple[Where, bytes] | None:
        """The owner, if an object with its name and uid exists."""
        served = self._served(owner)
        if served is None:
            return None
        where = Where(served, namespace if served.kind.namespaced else "", owner.name)
        entry = self._verbs.store.get(where.key)
        if entry is None or _meta(entry.value).uid != owner.uid:
            return None
        return where, entry.value

    def _served(self, owner: _Owner) -> Served | None:
        """The kind of an owner, in the version of the reference or in another."""
        if (found := self._catalogue.of_kind(owner.api_version, owner.kind)) is not None:
            return found
        group = owner.api_version.rpartition("/")[0]
        return next((s for s in self._catalogue if s.group == group and s.kind.name == owner.kind), None)

    def _where(self, key: str) -> Where | None:
        _, _, group, resource, rest = key.split("/", 4)
        served = self._catalogue.preferred("" if group == "core" else group, resource)
        if served is None:
            return None
        namespace, _, name = rest.rpartition("/")
        return Where(served, namespace, name)

    async def _done(self, task: Task) -> bool:
        """Process a task; False to retry later."""
        handler = {"dependent": self._dependent, "owner": self._owner, "namespace": self._namespace}[task.what]
        try:
            return await handler(task.key)
        except NotFound:
            return True
        except Conflict:
            return False
        except ApiFault as fault:
            log.warning("garbage collection failed and will be retried", extra={"key": task.key, "why": fault.message})
            return False

    async def _dependent(self, key: str) -> bool:
        """Delete an object if none of its owners exists."""
        where, options = self._where(key), self._end_of(key)
        if where is not None and options is not None:
            await self._verbs.delete(where, options, self._caller)
        return True

    def _end_of(self, key: str) -> DeleteOptions | None:
        """The delete options for an object without owners; None if it has one."""
        entry = self._verbs.store.get(key)
        if entry is None:
            return None
        meta = _meta(entry.value)
        if meta.deletion_timestamp or not meta.owner_references:
            return None
        if any(self._served(owner) is None for owner in meta.owner_references):
            return None  # an owner of a kind that is not served may still exist
        found = [self._find(owner, meta.namespace) for owner in meta.owner_references]
        existing = [owner for owner in found if owner is not None]
        ending = [owner for owner in existing if self._in_foreground(owner[1])]
        if existing and len(ending) < len(existing):
            return None
        return DeleteOptions("Foreground" if ending and self._dependents.get(meta.uid) else "Background", uid=meta.uid)

    @staticmethod
    def _in_foreground(value: bytes) -> bool:
        meta = _meta(value)
        return bool(meta.deletion_timestamp) and _FOREGROUND in (meta.finalizers or ())

    async def _owner(self, key: str) -> bool:
        """Remove the finalizer of an owner when its dependents are deleted or orphaned."""
        entry, where = self._verbs.store.get(key), self._where(key)
        if entry is None or where is None:
            return True
        meta = _meta(entry.value)
        finalizers = meta.finalizers or []
        if _ORPHAN in finalizers:
            await self._orphan(meta.uid)
            await self._drop_finalizer(where, _ORPHAN)
        elif _FOREGROUND in finalizers:
            if any([not await self._dependent(child) for child in sorted(self._dependents.get(meta.uid, ()))]):
                return False
            if not self._blocked(meta.uid):
                await self._drop_finalizer(where, _FOREGROUND)
        return True

    def _blocked(self, uid: str) -> bool:
        for key in self._dependents.get(uid, ()):
            entry = self._verbs.store.get(key)
            if entry is None:
                continue
            owners = _meta(entry.value).owner_references or ()
            if any(owner.uid == uid and owner.block_owner_deletion for owner in owners):
                return True
        return False

    async def _orphan(self, uid: str) -> None:
        for key in sorted(self._dependents.get(uid, ())):
            where = self._where(key)
            if where is not None:
                await self._change(where, lambda old: _without_owner(old, uid))

    async def _drop_finalizer(self, where: Where, finalizer: str) -> None:
        def without_finalizer(old: Raw) -> Raw:
            rest = [name for name in old["metadata"].get("finalizers") or () if name != finalizer]
            return {**old, "metadata": {**old["metadata"], "finalizers": rest}}

        await self._change(where, without_finalizer)

    async def _change(self, where: Where, change: Change) -> None:
        def desired(old: Raw) -> Wanted:
            return Wanted(change(old))

        await self._verbs.change(where, desired, WriteOptions(field_manager=self._caller.user_agent), self._caller)

    def _untold(self, prefix: str) -> bool:
        """Whether an object there is not in deletion yet; checked whenever an object of the namespace is deleted."""
        return any(b'"deletionTimestamp":' not in entry.value for entry in self._verbs.store.list(prefix).entries)

    async def _namespace(self, key: str) -> bool:
        """Delete the contents of a terminating namespace, then finalize it."""
        entry, where = self._verbs.store.get(key), self._where(key)
        if entry is None or where is None or not _meta(entry.value).deletion_timestamp:
            return True
        name = where.name
        remaining = 0
        for served in self._catalogue.stored():
            if served.kind.namespaced and self._verbs.store.count(served.under(name)):
                if self._untold(served.under(name)):
                    options = DeleteOptions("Background")
                    await self._verbs.delete_collection(Where(served, name), ListOptions(), options, self._caller)
                remaining += self._verbs.store.count(served.under(name))
        if remaining:
            return True  # deletion of the last object triggers this again
        await self._change(replace(where, subresource="finalize"), lambda old: {**old, "spec": {"finalizers": []}})
        return True


def _without_owner(old: Raw, uid: str) -> Raw:
    owners = [owner for owner in old["metadata"].get("ownerReferences") or () if owner.get("uid") != uid]
    metadata = {**old["metadata"], "ownerReferences": owners}
    if not owners:
        del metadata["ownerReferences"]
    return {**old, "metadata": metadata}
