"""The verbs of the API on stored objects: every read and write of an object goes through here."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from trimtab.api.value import Raw
from trimtab.clock import Clock, timestamp
from trimtab.errors import ApiError, Cause, Expired, Invalid
from trimtab.server import api_errors
from trimtab.server.admission.chain import AdmissionChain, Attributes
from trimtab.server.auth.user import Caller
from trimtab.server.registry.deletion import DeletionPlan, plan_deletion
from trimtab.server.registry.metadata import metadata_causes, update_causes
from trimtab.server.registry.object_schema import DesiredObject, ObjectSchema
from trimtab.server.registry.selector_matching import MATCH_EVERYTHING, RequestSelector, parse_selectors
from trimtab.server.registry.strategy import prepare_create, prepare_update, set_server_fields
from trimtab.server.request.options import (
    CURRENT_STATE,
    DeleteOptions,
    ListOptions,
    WriteOptions,
    encode_continue_token,
    parse_version,
    validate_list_options,
)
from trimtab.server.resources import ObjectPath, ResourceCatalogue, ServedResource
from trimtab.server.storage.key_locks import KeyLocks
from trimtab.server.storage.object_codec import ObjectList, RecentWrites, StoredObject, event_memo, pack, unpack
from trimtab.server.storage.uids import random_uid
from trimtab.store.records import StoredEntry, StoreEvent
from trimtab.store.store import Store
from trimtab.store.txn import ABSENT, DeleteKey, Draft, Operation, Proposal, PutKey, RevisionMismatch, TransactionResult

_SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_MAX_ATTEMPTS = 100
_NAME_ATTEMPTS = 8
"""How many generated names are tried."""
_PARALLEL_DELETES = 32
"""How many objects of a collection are deleted concurrently."""
_CREATE_ON_UPDATE = {"leases.coordination.k8s.io", "events", "nodes", "endpoints", "limitranges"}

ChangeFunction = Callable[[Raw], DesiredObject]
"""Derives the desired object from the current one, which it must not change."""


ComputedObjects = Callable[[], Iterable[Raw]]
"""Returns all current objects of a kind that is never stored."""


class WriteOutcome(Struct, frozen=True):
    """The result of a write."""

    stored: StoredObject
    created: bool = False
    deleted: bool = False


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
    ) -> None:
        self.store = store
        self.catalogue = catalogue
        self.clock = clock
        self.admission = admission
        self.object_schema = object_schema
        self._new_uid = new_uid
        self._key_locks = KeyLocks()
        self._recent_writes = RecentWrites()
        self.on_group_write: dict[str, Callable[[], None]] = {}
        """Callbacks that are called after each write to a group."""
        self.computed: dict[str, ComputedObjects] = {}
        """Sources of kinds that are never stored, by kind id."""
        self.extra_deletion_writes: Callable[[ObjectPath, DeleteOptions, Caller], Proposal | None] = lambda *_: None
        """Returns further writes for the same transaction as a deletion."""

    # reading

    def entry(self, where: ObjectPath) -> StoredEntry:
        if where.served.kind.id in self.computed:
            found = next((entry for entry in self._computed_entries(where) if entry.key == where.key), None)
        else:
            found = self.store.get(where.key)
        if found is None:
            raise api_errors.not_found(where.served.resource, where.served.group, where.name)
        return found

    def get(self, where: ObjectPath, version: str = "") -> StoredObject:
        if version:
            self._check_version(version)
        entry = self.entry(where)
        return StoredObject(where.served, entry.value, entry.mod_revision)

    def _check_version(self, text: str) -> None:
        version = parse_version(text)
        if version is None:
            raise api_errors.unclassified_error(f'strconv.ParseUint: parsing "{text}": invalid syntax')
        if version > self.store.revision:
            raise api_errors.version_too_large(version, self.store.revision)

    def list(self, where: ObjectPath, options: ListOptions) -> ObjectList:
        served, options = where.served, validate_list_options(options)
        choice = parse_selectors(served, options.labels, options.fields)
        if served.kind.id in self.computed:
            return ObjectList(
                served,
                [entry for entry in self._computed_entries(where) if choice.matches(entry.value)],
                self.store.revision,
            )
        if options.version is not None and options.version > self.store.revision:
            raise api_errors.version_too_large(options.version, self.store.revision)
        if choice.single_name and not options.after and not options.exact:
            return self._list_single(where, choice)
        limit = 0 if options.version == 0 else options.limit  # the watch cache serves any version and ignores the limit
        revision = options.snapshot or (options.version if options.exact else None)
        return self._list_page(where, choice, options._replace(limit=limit, snapshot=revision or 0))

    def _computed_entries(self, where: ObjectPath) -> Iterator[StoredEntry]:
        """The objects of a kind that is never stored, as store entries."""
        served, now = where.served, self.store.revision
        for obj in self.computed[served.kind.id]():
            metadata = obj["metadata"]
            key = served.key(metadata.get("namespace", ""), metadata["name"])
            if key.startswith(served.collection_prefix(where.namespace)):
                yield StoredEntry(key, pack(obj), now, now)

    def _list_single(self, where: ObjectPath, selector: RequestSelector) -> ObjectList:
        served, namespace = where.served, where.namespace
        if namespace or not served.kind.namespaced:
            entry = self.store.get(served.key(namespace, selector.single_name))
            entries = [entry] if entry else []
        else:
            suffix = f"/{selector.single_name}"
            entries = [entry for entry in self.store.list(served.prefix).entries if entry.key.endswith(suffix)]
        return ObjectList(served, [entry for entry in entries if selector.matches(entry.value)], self.store.revision)

    def _list_page(self, where: ObjectPath, selector: RequestSelector, options: ListOptions) -> ObjectList:
        served, limit, after, revision = where.served, options.limit, options.after, options.snapshot or None
        prefix = served.collection_prefix(where.namespace)
        start = f"{prefix}{after}" if after else None
        try:
            if selector is MATCH_EVERYTHING:
                page = self.store.list(prefix, start_after=start, limit=limit, at_revision=revision)
                entries, remaining = page.entries, page.remaining
            else:
                page = self.store.list(prefix, start_after=start, at_revision=revision)
                entries = [entry for entry in page.entries if selector.matches(entry.value)]
                remaining = len(entries) - limit if limit else 0
                entries = entries[:limit] if limit else entries
        except Expired:
            if after:
                raise ExpiredToken(encode_continue_token(CURRENT_STATE, after)) from None
            raise
        if limit and remaining > 0:
            token = encode_continue_token(page.revision, entries[-1].key.removeprefix(prefix))
            return ObjectList(
                served, entries, page.revision, token, remaining if selector is MATCH_EVERYTHING else None
            )
        return ObjectList(served, entries, page.revision)

    # writing

    async def create(
        self, where: ObjectPath, desired: DesiredObject, options: WriteOptions, caller: Caller
    ) -> WriteOutcome:
        """Create an object; a name in `where` is one that the object must have (when an update creates)."""
        served, obj = where.served, desired.obj
        metadata = self._metadata_with_path(where, obj)
        if metadata.get("resourceVersion"):
            raise api_errors.unclassified_error("resourceVersion should not be set on objects to be created")
        generate_name = metadata.get("generateName") if not metadata.get("name") else ""
        for _ in range(_NAME_ATTEMPTS if generate_name else 1):
            if generate_name:
                metadata["name"] = generate_name[:58] + "".join(secrets.choice(_SUFFIX_CHARACTERS) for _ in range(5))
            attributes = Attributes("CREATE", replace(where, name=metadata.get("name") or ""), caller, options.dry_run)
            self.admission.check_namespace(attributes)
            new = await self._prepare_new(desired, options, attributes, self._timestamp())
            put = _put_new(served, served.key(where.namespace, metadata["name"]), new)
            if options.dry_run:
                if self.store.get(put.key) is None:
                    return WriteOutcome(StoredObject(served, put.value, None), created=True)
            else:
                try:
                    written = await self._commit(served, put, *self.admission.transaction_checks(attributes, new))
                    return _created_outcome(served, put, written.events[-1])
                except RevisionMismatch:
                    pass
        raise api_errors.already_exists(served.resource, served.group, metadata["name"])

    async def create_together(
        self, served: ServedResource, objects: Iterable[Raw], options: WriteOptions, caller: Caller
    ) -> Sequence[WriteOutcome]:
        """Create named objects in one transaction; none if one is refused or needs a check in the transaction."""
        puts: dict[str, PutKey] = {}
        now = self._timestamp()
        for obj in objects:
            where = ObjectPath(served, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            attributes = Attributes("CREATE", where, caller)
            self.admission.check_namespace(attributes)
            new = await self._prepare_new(DesiredObject(obj), options, attributes, now)
            if where.key in puts or self.admission.transaction_checks(attributes, new):
                return ()
            puts[where.key] = _put_new(served, where.key, new)
        written = await self.store.commit(puts.values())
        for event in written.events:
            self._on_committed(served, event)
        return [_created_outcome(served, put, event) for put, event in zip(puts.values(), written.events, strict=True)]

    async def create_missing(self, objects: Iterable[Raw], caller: Caller) -> None:
        """Create those of `objects` that do not exist yet, in one transaction."""
        writes, now = [], self._timestamp()
        for obj in objects:
            served = self.catalogue.find_kind(obj["apiVersion"], obj["kind"])
            if served is None:
                continue
            where = ObjectPath(served, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            if self.store.get(where.key) is None:
                attributes = Attributes("CREATE", where, caller)
                new = await self._prepare_new(
                    DesiredObject(obj), WriteOptions(field_manager=caller.user_agent), attributes, now
                )
                writes.append(PutKey(where.key, pack(new), ABSENT))
        if writes:
            await self.store.commit(writes)

    async def record_events(self, served: ServedResource, events: Iterable[Raw], caller: Caller) -> None:
        """Create complete Events of this process in one transaction, without managedFields; drop refused ones."""
        writes, now = [], self._timestamp()
        for event in events:
            where = ObjectPath(served, event["metadata"]["namespace"], event["metadata"]["name"])
            attributes = Attributes("CREATE", where, caller)
            with contextlib.suppress(ApiError):
                self.admission.check_namespace(attributes)
                complete = {
                    **event,
                    "metadata": {**event["metadata"], "uid": self._new_uid(), "creationTimestamp": now},
                }
                new = await self._admit_new(attributes, complete)
                put = PutKey(where.key, pack(new))
                if checks := self.admission.transaction_checks(attributes, new):
                    await self._commit(served, put, *checks)
                else:
                    writes.append(put)
        if writes:
            await self.store.commit(writes)

    def _timestamp(self) -> str:
        return timestamp(self.clock.now())

    async def _prepare_new(
        self, desired: DesiredObject, options: WriteOptions, attributes: Attributes, now: str
    ) -> Raw:
        where, obj = attributes.where, desired.obj
        served = where.served
        obj = {**obj, "metadata": {**obj["metadata"]}}  # copied, so that the caller's object does not change
        prepare_create(served, obj, self.object_schema.initial_status(served))
        obj = self.object_schema.apply_defaults(served, obj)
        if not desired.applied:
            obj = self.object_schema.with_managed_fields(
                where, obj, None, options.field_manager or attributes.caller.user_agent, now
            )
        obj["metadata"] |= {"uid": self._new_uid(), "creationTimestamp": now}
        set_server_fields(served, obj)
        return await self._admit_new(attributes, obj)

    async def _admit_new(self, attributes: Attributes, obj: Raw) -> Raw:
        """A new object after admission and validation."""
        served = attributes.where.served
        for plugin in self.admission.mutating_plugins(attributes):
            obj = await plugin.mutate(attributes, obj, None)
        causes = metadata_causes(obj["metadata"], served.kind.id)
        causes += self.object_schema.validate(served, obj, None)
        if causes:
            raise _invalid(served, obj["metadata"].get("name") or "", causes)
        for validator in self.admission.validating_plugins(attributes):
            await validator.validate(attributes, obj, None)
        return obj

    async def _commit(
        self, served: ServedResource, operation: PutKey | DeleteKey, *beside: Proposal
    ) -> TransactionResult:
        """Write, preceded in the same transaction by the operations of `extra_writes`; each of them may refuse."""

        def propose(draft: Draft) -> list[Operation]:
            return [*(extra for extra_write in beside for extra in extra_write(draft)), operation]

        written = await (self.store.transact(propose) if beside else self.store.commit([operation]))
        self._on_committed(served, written.events[-1])
        return written

    def _on_committed(self, served: ServedResource, event: StoreEvent) -> None:
        self._recent_writes.add(served, event)
        if callback := self.on_group_write.get(served.group):
            callback()

    def _metadata_with_path(self, where: ObjectPath, obj: Raw) -> Raw:
        """The metadata of a body, which may omit what the URL says but not contradict it."""
        name, namespace = where.name, where.namespace
        metadata: Raw = obj.setdefault("metadata", {})
        if name and metadata.get("name") and metadata["name"] != name:
            raise api_errors.bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        if name:
            metadata["name"] = name
        if where.served.kind.namespaced:
            if metadata.get("namespace") and metadata["namespace"] != namespace:
                raise api_errors.bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)
        return metadata

    async def update(self, where: ObjectPath, obj: Raw, options: WriteOptions, caller: Caller) -> WriteOutcome:
        served, name = where.served, where.name
        metadata = self._metadata_with_path(replace(where, name=""), obj)
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
        served, name = where.served, where.name
        entry = self.entry(where)
        old = self._recent_writes.decode(served, entry)
        wanted = change(old)
        requires_version = self._check_identity(served, old["metadata"], wanted.obj, replaces=replaces)
        try:
            attributes = Attributes("UPDATE", where, caller, options.dry_run)
            return await self._write_changed(entry, old, wanted, options, attributes, extra_writes)
        except RevisionMismatch:
            if requires_version:
                raise api_errors.conflict(served.resource, served.group, name) from None
            raise

    def _check_identity(self, served: ServedResource, old: Raw, new: Raw, *, replaces: bool) -> bool:
        """Whether the new object requires the version it was derived from; raises if that is not the current one."""
        metadata = new["metadata"]
        name = metadata.get("name", "")
        version, uid = metadata.get("resourceVersion") or "", metadata.get("uid") or ""
        if uid and uid != (current_uid := old.get("uid", "")):
            if not replaces:
                message = f"Invalid value: {api_errors.quote_value(uid)}: field is immutable"
                cause = Cause("FieldValueInvalid", message, "metadata.uid")
                raise api_errors.invalid(served.kind.name, served.group, name, [cause])
            resource = f"{served.group}/{served.resource}" if served.kind.custom else served.resource
            key = "/".join(filter(None, ("/registry", resource, metadata.get("namespace", ""), name)))
            raise api_errors.conflict(
                served.resource,
                served.group,
                name,
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current_uid}",
            )
        if not version:
            if replaces and served.kind.custom:
                cause = Cause(
                    "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
                )
                raise api_errors.invalid(served.resource, served.group, name, [cause])
            return False
        number = parse_version(version)
        if number is None:
            raise api_errors.unclassified_error(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if number not in (int(old["resourceVersion"]), 0):
            raise api_errors.conflict(served.resource, served.group, name)
        return replaces and number != 0

    async def _write_changed(
        self,
        entry: StoredEntry,
        old: Raw,
        desired: DesiredObject,
        options: WriteOptions,
        attributes: Attributes,
        extra_writes: Sequence[Proposal],
    ) -> WriteOutcome:
        served, name, subresource = attributes.where.served, attributes.where.name, attributes.where.subresource
        new = prepare_update(served, desired.obj, old, subresource, whole=options.include_status)
        new = self.object_schema.apply_defaults(served, new)
        if not desired.applied:
            manager = options.field_manager or attributes.caller.user_agent
            new = self.object_schema.with_managed_fields(
                attributes.where, new, old, manager, self._timestamp(), whole=options.include_status
            )
        for plugin in self.admission.mutating_plugins(attributes):
            new = await plugin.mutate(attributes, new, old)
        causes = update_causes(new["metadata"], old["metadata"], served.kind.id)
        causes += self.object_schema.validate(served, new, old, subresource)
        if causes:
            raise _invalid(served, name, causes)
        for validator in self.admission.validating_plugins(attributes):
            await validator.validate(attributes, new, old)
        value = pack(served.to_stored(new) if served.to_stored else new)
        # the same members in another order have the same length
        if len(value) == len(entry.value) and (value == entry.value or _is_unchanged(new, old)):
            return WriteOutcome(StoredObject(served, entry.value, entry.mod_revision))
        removed = _completes_deletion(served, new)
        if options.dry_run:
            return WriteOutcome(StoredObject(served, value, entry.mod_revision), deleted=removed)
        if removed:
            written = await self._commit(served, DeleteKey(entry.key, entry.mod_revision), *extra_writes)
        else:
            written = await self._commit(
                served, PutKey(entry.key, value, entry.mod_revision, event_memo(served, new)), *extra_writes
            )
        return WriteOutcome(
            StoredObject(served, value, written.events[-1].revision, written.events[-1]), deleted=removed
        )

    # deleting

    async def delete(self, where: ObjectPath, options: DeleteOptions, caller: Caller) -> tuple[WriteOutcome, Raw]:
        """Delete, or start to delete; returns the last state of the object and a Status."""
        served, name = where.served, where.name
        for _ in range(_MAX_ATTEMPTS):
            entry = self.entry(where)
            old = unpack(served, entry.value, entry.mod_revision)
            _check_preconditions(served, old, options)
            attributes = Attributes("DELETE", where, caller, options.dry_run)
            for plugin in self.admission.validating_plugins(attributes):
                await plugin.validate(attributes, None, old)
            plan = plan_deletion(served, old, options, self.clock.now())
            extra = self.extra_deletion_writes(where, options, caller)
            try:
                return await self._write_deletion(served, entry, plan, options, *([extra] if extra else []))
            except RevisionMismatch:
                continue
        raise api_errors.conflict(served.resource, served.group, name)

    async def _write_deletion(
        self, served: ServedResource, entry: StoredEntry, plan: DeletionPlan, options: DeleteOptions, *beside: Proposal
    ) -> tuple[WriteOutcome, Raw]:
        status = _deletion_status(served, plan.obj["metadata"])
        if plan.unchanged:
            return WriteOutcome(StoredObject(served, entry.value, entry.mod_revision)), status
        obj = served.to_stored(plan.obj) if served.to_stored else plan.obj
        value = pack(obj)
        if options.dry_run:
            return WriteOutcome(StoredObject(served, value, entry.mod_revision), deleted=plan.removed), status
        if plan.removed:
            written = await self._commit(served, DeleteKey(entry.key, entry.mod_revision), *beside)
        else:
            written = await self._commit(served, PutKey(entry.key, value, entry.mod_revision), *beside)
        return WriteOutcome(StoredObject(served, value, written.events[-1].revision), deleted=plan.removed), status

    async def delete_collection(
        self, where: ObjectPath, list_options: ListOptions, options: DeleteOptions, caller: Caller
    ) -> ObjectList:
        served = where.served
        batch = self.list(where, list_options)
        for start in range(0, len(batch.entries), _PARALLEL_DELETES):  # so that many share one commit
            chunk = batch.entries[start : start + _PARALLEL_DELETES]
            await asyncio.gather(*(self._delete_if_exists(served, entry.key, options, caller) for entry in chunk))
        return batch

    async def _delete_if_exists(self, served: ServedResource, key: str, options: DeleteOptions, caller: Caller) -> None:
        namespace, _, name = key.removeprefix(served.prefix).rpartition("/")
        try:
            await self.delete(ObjectPath(served, namespace, name), options, caller)
        except ApiError as fault:
            if fault.code != 404:  # deleted meanwhile
                raise


def _put_new(served: ServedResource, key: str, obj: Raw) -> PutKey:
    return PutKey(key, pack(served.to_stored(obj) if served.to_stored else obj), ABSENT, event_memo(served, obj))


def _created_outcome(served: ServedResource, put: PutKey, event: StoreEvent) -> WriteOutcome:
    return WriteOutcome(StoredObject(served, put.value, event.revision, event), created=True)


def _invalid(served: ServedResource, name: str, causes: Sequence[Cause]) -> Invalid:
    group = "" if served.storage == "events" else served.group  # both versions of events are validated as the core one
    return api_errors.invalid(served.kind.name, group, name, causes)


def _completes_deletion(served: ServedResource, new: Raw) -> bool:
    """Whether the object is in deletion and nothing delays its removal any more."""
    metadata = new["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (served.storage == "namespaces" and new.get("spec", {}).get("finalizers"))
    )


def _is_unchanged(new: Raw, old: Raw) -> bool:
    """Whether nothing but the order of members changed."""
    after = {key: value for key, value in new["metadata"].items() if key != "resourceVersion"}
    before = {key: value for key, value in old["metadata"].items() if key != "resourceVersion"}
    return after == before and {**new, "metadata": None} == {**old, "metadata": None}


class ExpiredToken(Expired):
    """A continue token that has expired; the list can be continued without consistency."""

    def __init__(self, token: str) -> None:
        super().__init__(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list."
        )
        self._token = token

    def status(self) -> Raw:
        return {**super().status(), "metadata": {"continue": self._token}}


def _check_preconditions(served: ServedResource, old: Raw, options: DeleteOptions) -> None:
    metadata = old["metadata"]
    name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
    if options.uid and options.uid != uid:
        raise _precondition_conflict(served, name, "UID", options.uid, uid)
    if options.version and options.version != version:
        raise _precondition_conflict(served, name, "ResourceVersion", options.version, version)


def _precondition_conflict(served: ServedResource, name: str, what: str, requested: str, found: str) -> ApiError:
    message = f"the {what} in the precondition ({requested}) does not match the {what} in record ({found}). "
    ending = (
        "The object might have been deleted and then recreated"
        if what == "UID"
        else "The object might have been modified"
    )
    return api_errors.conflict(served.kind.name, served.group, name, message + ending)


def _deletion_status(served: ServedResource, metadata: Mapping[str, Any]) -> Raw:
    details: Raw = {"name": metadata["name"]}
    if served.group:
        details["group"] = served.group
    details |= {"kind": served.resource, "uid": metadata["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
