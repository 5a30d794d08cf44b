"""The verbs of the API on stored objects: every read and write of an object goes through here.

A write has three steps, each in a module of its own. `object_preparation` turns the requested object into the one to
store, or refuses it. `object_commits` writes it if the stored object is still the one it was derived from. What is left
is here: names that are generated, and attempts that are repeated when somebody else wrote in between.
"""

import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from trimtab.api.limits import MAX_VALUES_IN_LOOP
from trimtab.api.value import Raw
from trimtab.clock import Clock, timestamp
from trimtab.server import api_errors
from trimtab.server.admission.chain import AdmissionChain, Attributes
from trimtab.server.auth.user import Caller
from trimtab.server.registry.batch_creation import BatchCreation
from trimtab.server.registry.object_commits import ObjectCommits, WriteOutcome, created_outcome, put_new, stored_form
from trimtab.server.registry.object_deletion import DeletionWrites, ObjectDeletion, no_further_writes
from trimtab.server.registry.object_preparation import ObjectPreparation, check_identity, metadata_with_path
from trimtab.server.registry.object_reader import ComputedObjects, ObjectReader
from trimtab.server.registry.object_schema import DesiredObject, ObjectSchema
from trimtab.server.request import large_objects
from trimtab.server.request.options import TRUSTED, DeleteOptions, ListOptions, WriteOptions
from trimtab.server.resources import ObjectPath, ResourceCatalogue, ServedResource
from trimtab.server.storage.key_locks import KeyLocks
from trimtab.server.storage.object_codec import ObjectList, StoredObject, event_memo
from trimtab.server.storage.uids import random_uid
from trimtab.server.storage.version_conversion import (
    entries_in_version,
    object_in_version,
    put_in_storage_version,
    version_of,
)
from trimtab.store.records import StoredEntry
from trimtab.store.store import Store
from trimtab.store.txn import DeleteKey, Proposal, PutKey, RevisionMismatch

_SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_MAX_ATTEMPTS = 100
_NAME_ATTEMPTS = 8
"""How many generated names are tried."""
_CREATE_ON_UPDATE = {"leases.coordination.k8s.io", "events", "nodes", "endpoints", "limitranges"}

Preview = Callable[[Raw], Awaitable[Raw]]
ChangeFunction = Callable[[Raw], DesiredObject]
"""Derives the desired object from the current one, which it must not change."""


class ResourceStore:
    """Reads and writes objects by the rules of Kubernetes, independent of HTTP."""

    def __init__(
        self,
        store: Store,
        catalogue: ResourceCatalogue,
        clock: Clock,
        admission: AdmissionChain,
        object_schema: ObjectSchema,
        *,
        new_uid: Callable[[], str] = random_uid,
        computed: Mapping[str, ComputedObjects] = MappingProxyType({}),
        on_group_write: Mapping[str, Callable[[], None]] = MappingProxyType({}),
        deletion_writes: DeletionWrites = no_further_writes,
    ) -> None:
        """`computed`: see `ObjectReader`; `on_group_write`: see `ObjectCommits`; `deletion_writes`: `ObjectDeletion`."""
        self.store = store
        self.catalogue = catalogue
        self.clock = clock
        self.admission = admission
        self.object_schema = object_schema
        self.dry_run_previews: dict[str, Preview] = {}
        """By kind: what a dry run of a creation answers besides the object itself, such as its status."""
        self._key_locks = KeyLocks()
        self._reader = ObjectReader(store, computed)
        self._commits = ObjectCommits(store, on_group_write)
        self._preparation = ObjectPreparation(admission, object_schema, new_uid)
        self._batches = BatchCreation(store, catalogue, clock, admission, self._preparation, self._commits)
        self._deletion = ObjectDeletion(self._reader, self._commits, admission, clock, deletion_writes)

    def entry(self, where: ObjectPath) -> StoredEntry:
        """The stored object as bytes; raises NotFound."""
        return self._reader.entry(where)

    def get(self, where: ObjectPath, version: str = "") -> StoredObject:
        return self._reader.get(where, version)

    async def read(self, where: ObjectPath, version: str = "") -> StoredObject:
        """`get` in the version of the path, also where a webhook converts to it."""
        return await object_in_version(self.get(where, version))

    def list(self, where: ObjectPath, options: ListOptions) -> ObjectList:
        return self._reader.list(where, options)

    async def select(self, where: ObjectPath, options: ListOptions) -> ObjectList:
        """`list` for requests of others: a selection that takes long runs in a thread."""
        plan = self._reader.plan_list(where, options)
        if where.served.converter is not None:
            plan = plan._replace(entries=await entries_in_version(where.served, plan.entries))
        return plan.finish(await large_objects.run(plan.is_expensive(), plan.matching_entries))

    async def create(
        self, where: ObjectPath, desired: DesiredObject, options: WriteOptions, caller: Caller
    ) -> WriteOutcome:
        """Create an object; a name in `where` is one that the object must have (when an update creates)."""
        served, obj = where.served, desired.obj
        metadata = metadata_with_path(where, obj)
        has_version = bool(metadata.get("resourceVersion"))
        generate_name = metadata.get("generateName") if not metadata.get("name") else ""
        for _ in range(_NAME_ATTEMPTS if generate_name else 1):
            if generate_name:
                metadata["name"] = generate_name[:58] + "".join(secrets.choice(_SUFFIX_CHARACTERS) for _ in range(5))
            attributes = Attributes("CREATE", replace(where, name=metadata.get("name") or ""), caller, options.dry_run)
            self.admission.check_namespace(attributes)
            new = await self._preparation.new_object(desired, options, attributes, self._timestamp())
            if has_version:  # admission comes first, and says more about what is refused
                raise api_errors.unclassified_error("resourceVersion should not be set on objects to be created")
            key = served.key(where.namespace, metadata["name"])
            put = await large_objects.run(caller.sends_large_object, put_new, served, key, new)
            stored = await put_in_storage_version(served, put)
            if options.dry_run:
                if self.store.get(put.key) is None:
                    if preview := self.dry_run_previews.get(served.kind.id):
                        put = put_new(served, put.key, await preview(new))
                    return WriteOutcome(StoredObject(served, put.value, None), created=True)
            else:
                try:
                    written = await self._commits.commit(
                        served, stored, *self.admission.transaction_checks(attributes, new)
                    )
                    return created_outcome(served, put, written.events[-1])
                except RevisionMismatch:
                    pass
        raise api_errors.already_exists(served.resource, served.group, metadata["name"])

    def create_together(
        self, served: ServedResource, objects: Iterable[Raw], options: WriteOptions, caller: Caller
    ) -> Awaitable[Sequence[WriteOutcome]]:
        """Create named objects in one transaction; none if one is refused or needs a check in the transaction."""
        return self._batches.create_together(served, objects, options, caller)

    def create_missing(self, objects: Iterable[Raw], caller: Caller) -> Awaitable[None]:
        """Create those of `objects` that do not exist yet, in one transaction."""
        return self._batches.create_missing(objects, caller)

    def record_events(self, served: ServedResource, events: Iterable[Raw], caller: Caller) -> Awaitable[None]:
        """Create complete Events of this process in one transaction; drop refused ones."""
        return self._batches.record_events(served, events, caller)

    async def update(self, where: ObjectPath, obj: Raw, options: WriteOptions, caller: Caller) -> WriteOutcome:
        served, name = where.served, where.name
        metadata = metadata_with_path(replace(where, name=""), obj)
        if metadata.get("name", "") != name:
            message = f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL ({name})"
            raise api_errors.bad_request(message if metadata.get("name") else "name must be provided")
        may_create = (
            served.storage in _CREATE_ON_UPDATE and not where.subresource and not metadata.get("resourceVersion")
        )
        if may_create and self.store.get(where.key) is None:
            return await self.create(where, DesiredObject(obj), options, caller)

        def replacement(_: Raw) -> DesiredObject:
            return DesiredObject({**obj, "metadata": {**metadata}})

        return await self.change(where, replacement, options, caller, replaces=True)

    async def change(
        self,
        where: ObjectPath,
        change: ChangeFunction,
        options: WriteOptions,
        caller: Caller,
        *,
        replaces: bool = False,
        extra_writes: Sequence[Proposal] = (),
    ) -> WriteOutcome:
        """Update the object to what `change` returns, and retry when others write in between."""
        try:
            return await self._try_change(where, change, options, caller, replaces=replaces, extra_writes=extra_writes)
        except RevisionMismatch:
            async with self._key_locks.lock(
                where.key
            ):  # writers that had a conflict queue up, so that each makes progress
                for _ in range(_MAX_ATTEMPTS):
                    with contextlib.suppress(RevisionMismatch):
                        return await self._try_change(
                            where, change, options, caller, replaces=replaces, extra_writes=extra_writes
                        )
        raise api_errors.conflict(where.served.resource, where.served.group, where.name)

    async def _try_change(
        self,
        where: ObjectPath,
        change: ChangeFunction,
        options: WriteOptions,
        caller: Caller,
        *,
        replaces: bool,
        extra_writes: Sequence[Proposal],
    ) -> WriteOutcome:
        served = where.served
        entry = await self._entry_to_change(where)
        is_large = caller.sends_large_object or self._changes_slowly(served, entry, options, caller)
        old = await large_objects.run(is_large, self._commits.decode, served, entry)
        wanted = await large_objects.run(is_large, change, old)
        check_identity(served, old["metadata"], wanted.obj, replaces=replaces)
        attributes = Attributes("UPDATE", where, caller, options.dry_run)
        return await self._write_changed(entry, old, wanted, options, attributes, extra_writes, is_large=is_large)

    def _changes_slowly(
        self, served: ServedResource, entry: StoredEntry, options: WriteOptions, caller: Caller
    ) -> bool:
        """Whether a small change of this object takes long.

        A patch of our own types does not if the object is still decoded: it shares what the patch leaves alone.
        """
        value = entry.value
        if caller.verb and self.object_schema.validates_slowly(served, value):
            return True
        if len(value) <= MAX_VALUES_IN_LOOP:
            return False
        is_typed = options.validation == TRUSTED and not served.message
        return not (is_typed and self._commits.is_decoded(served, entry)) and large_objects.is_large(value)

    async def _entry_to_change(self, where: ObjectPath) -> StoredEntry:
        entry = self._reader.entry(where)
        return (await entries_in_version(where.served, [entry]))[0] if where.served.converter else entry

    def _is_outdated(self, served: ServedResource, entry: StoredEntry) -> bool:
        """Whether the object is stored in another version than its kind is now, so that any write replaces it."""
        if served.converter is None:
            return False
        stored = self.store.get(entry.key)
        return stored is not None and version_of(stored.value) != served.converter.storage_version

    async def _write_changed(
        self,
        entry: StoredEntry,
        old: Raw,
        desired: DesiredObject,
        options: WriteOptions,
        attributes: Attributes,
        extra_writes: Sequence[Proposal],
        *,
        is_large: bool,
    ) -> WriteOutcome:
        served = attributes.where.served
        new = await self._preparation.changed_object(
            old, desired, options, attributes, self._timestamp(), is_large=is_large
        )
        value, is_changed = await large_objects.run(is_large, _pack_changed, served, entry, old, new)
        if not is_changed and not self._is_outdated(served, entry):
            return WriteOutcome(StoredObject(served, entry.value, entry.mod_revision))
        removed = _completes_deletion(served, new)
        if options.dry_run:
            return WriteOutcome(StoredObject(served, value, entry.mod_revision), deleted=removed)
        if removed:
            written = await self._commits.commit(served, DeleteKey(entry.key, entry.mod_revision), *extra_writes)
        else:
            put = PutKey(entry.key, value, entry.mod_revision, event_memo(served, new))
            written = await self._commits.commit(served, await put_in_storage_version(served, put), *extra_writes)
        return WriteOutcome(
            StoredObject(served, value, written.events[-1].revision, written.events[-1]), deleted=removed
        )

    def delete(self, where: ObjectPath, options: DeleteOptions, caller: Caller) -> Awaitable[tuple[WriteOutcome, Raw]]:
        """Delete, or start to delete; returns the last state of the object and a Status."""
        return self._deletion.delete(where, options, caller)

    def delete_collection(
        self, where: ObjectPath, list_options: ListOptions, options: DeleteOptions, caller: Caller
    ) -> Awaitable[ObjectList]:
        """Delete all objects of a list; returns the list."""
        return self._deletion.delete_collection(where, list_options, options, caller)

    def _timestamp(self) -> str:
        return timestamp(self.clock.now())


def _completes_deletion(served: ServedResource, new: Raw) -> bool:
    """Whether the object is in deletion and nothing delays its removal any more."""
    metadata = new["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (served.storage == "namespaces" and new.get("spec", {}).get("finalizers"))
    )


def _pack_changed(served: ServedResource, entry: StoredEntry, old: Raw, new: Raw) -> tuple[bytes, bool]:
    """The stored form of a changed object, and whether it differs from the stored one."""
    value = stored_form(served, new)
    # the same members in another order have the same length
    return value, len(value) != len(entry.value) or (value != entry.value and not _is_unchanged(new, old))


def _is_unchanged(new: Raw, old: Raw) -> bool:
    """Whether nothing but the order of members changed."""
    if {**new, "metadata": None} != {**old, "metadata": None}:
        return False
    version = {"resourceVersion": None}
    return {**new["metadata"], **version} == {**old["metadata"], **version}
