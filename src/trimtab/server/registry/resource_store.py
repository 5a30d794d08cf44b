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
from trimtab.errors import ApiFault, Cause, Expired, Invalid
from trimtab.server import api_errors
from trimtab.server.admission.chain import Admission, Attributes
from trimtab.server.auth.user import Caller
from trimtab.server.registry.deletion import Deletion, plan_deletion
from trimtab.server.registry.metadata import metadata_causes, update_causes
from trimtab.server.registry.object_schema import Fitter, Wanted
from trimtab.server.registry.selector_matching import EVERYTHING, Choice, choose
from trimtab.server.registry.strategy import carry_over, give_birth, prepare_create
from trimtab.server.request.options import (
    CURRENT_STATE,
    DeleteOptions,
    ListOptions,
    WriteOptions,
    encode_continue_token,
    parse_version,
    validate_list_options,
)
from trimtab.server.resources import Catalogue, Served, Where
from trimtab.server.storage.key_locks import Turns
from trimtab.server.storage.object_codec import Batch, Found, Recent, memo_of, pack, unpack
from trimtab.server.storage.uids import random_uid
from trimtab.store.records import Entry, Event
from trimtab.store.store import Store
from trimtab.store.txn import ABSENT, Delete, Draft, Mismatch, Operation, Proposal, Put, Written

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_TRIES = 100
_NAMES = 8
"""How many generated names are tried."""
_TOGETHER = 32
"""How many objects of a collection are deleted concurrently."""
_CREATE_ON_UPDATE = {"leases.coordination.k8s.io", "events", "nodes", "endpoints", "limitranges"}

Change = Callable[[Raw], Wanted]
"""Derives the desired object from the current one, which it must not change."""


Computed = Callable[[], Iterable[Raw]]
"""Returns all current objects of a kind that is never stored."""


class Outcome(Struct, frozen=True):
    """The result of a write."""

    found: Found
    created: bool = False
    deleted: bool = False


class Verbs:
    """Reads and writes objects by the rules of Kubernetes, independent of HTTP."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        clock: Clock,
        admission: Admission,
        fitter: Fitter,
        *,
        new_uid: Callable[[], str] = random_uid,
    ) -> None:
        self.store = store
        self.catalogue = catalogue
        self.clock = clock
        self.admission = admission
        self.fitter = fitter
        self._new_uid = new_uid
        self._turns = Turns()
        self._recent = Recent()
        self.after_writes: dict[str, Callable[[], None]] = {}
        """Callbacks that are called after each write to a group."""
        self.computed: dict[str, Computed] = {}
        """Sources of kinds that are never stored, by kind id."""
        self.beside_deletion: Callable[[Where, DeleteOptions, Caller], Proposal | None] = lambda *_: None
        """Returns further writes for the same transaction as a deletion."""

    # reading

    def entry(self, where: Where) -> Entry:
        if where.served.kind.id in self.computed:
            found = next((entry for entry in self._told(where) if entry.key == where.key), None)
        else:
            found = self.store.get(where.key)
        if found is None:
            raise api_errors.not_found(where.served.resource, where.served.group, where.name)
        return found

    def get(self, where: Where, version: str = "") -> Found:
        if version:
            self._check_version(version)
        entry = self.entry(where)
        return Found(where.served, entry.value, entry.mod_revision)

    def _check_version(self, text: str) -> None:
        version = parse_version(text)
        if version is None:
            raise api_errors.plain_error(f'strconv.ParseUint: parsing "{text}": invalid syntax')
        if version > self.store.revision:
            raise api_errors.too_large_version(version, self.store.revision)

    def list(self, where: Where, options: ListOptions) -> Batch:
        served, options = where.served, validate_list_options(options)
        choice = choose(served, options.labels, options.fields)
        if served.kind.id in self.computed:
            return Batch(
                served, [entry for entry in self._told(where) if choice.takes(entry.value)], self.store.revision
            )
        if options.version is not None and options.version > self.store.revision:
            raise api_errors.too_large_version(options.version, self.store.revision)
        if choice.single and not options.after and not options.exact:
            return self._single(where, choice)
        limit = 0 if options.version == 0 else options.limit  # the watch cache serves any version and ignores the limit
        revision = options.snapshot or (options.version if options.exact else None)
        return self._page(where, choice, options._replace(limit=limit, snapshot=revision or 0))

    def _told(self, where: Where) -> Iterator[Entry]:
        """The objects of a kind that is never stored, as store entries."""
        served, now = where.served, self.store.revision
        for obj in self.computed[served.kind.id]():
            metadata = obj["metadata"]
            key = served.key(metadata.get("namespace", ""), metadata["name"])
            if key.startswith(served.under(where.namespace)):
                yield Entry(key, pack(obj), now, now)

    def _single(self, where: Where, choice: Choice) -> Batch:
        served, namespace = where.served, where.namespace
        if namespace or not served.kind.namespaced:
            entry = self.store.get(served.key(namespace, choice.single))
            entries = [entry] if entry else []
        else:
            suffix = f"/{choice.single}"
            entries = [entry for entry in self.store.list(served.prefix).entries if entry.key.endswith(suffix)]
        return Batch(served, [entry for entry in entries if choice.takes(entry.value)], self.store.revision)

    def _page(self, where: Where, choice: Choice, options: ListOptions) -> Batch:
        served, limit, after, revision = where.served, options.limit, options.after, options.snapshot or None
        prefix = served.under(where.namespace)
        start = f"{prefix}{after}" if after else None
        try:
            if choice is EVERYTHING:
                page = self.store.list(prefix, start_after=start, limit=limit, at_revision=revision)
                entries, remaining = page.entries, page.remaining
            else:
                page = self.store.list(prefix, start_after=start, at_revision=revision)
                entries = [entry for entry in page.entries if choice.takes(entry.value)]
                remaining = len(entries) - limit if limit else 0
                entries = entries[:limit] if limit else entries
        except Expired:
            if after:
                raise ExpiredToken(encode_continue_token(CURRENT_STATE, after)) from None
            raise
        if limit and remaining > 0:
            token = encode_continue_token(page.revision, entries[-1].key.removeprefix(prefix))
            return Batch(served, entries, page.revision, token, remaining if choice is EVERYTHING else None)
        return Batch(served, entries, page.revision)

    # writing

    async def create(self, where: Where, wanted: Wanted, options: WriteOptions, caller: Caller) -> Outcome:
        """Create an object; a name in `where` is one that the object must have (when an update creates)."""
        served, obj = where.served, wanted.obj
        metadata = self._addressed(where, obj)
        if metadata.get("resourceVersion"):
            raise api_errors.plain_error("resourceVersion should not be set on objects to be created")
        generate_name = metadata.get("generateName") if not metadata.get("name") else ""
        for _ in range(_NAMES if generate_name else 1):
            if generate_name:
                metadata["name"] = generate_name[:58] + "".join(secrets.choice(_SUFFIX) for _ in range(5))
            attributes = Attributes("CREATE", replace(where, name=metadata.get("name") or ""), caller, options.dry_run)
            self.admission.check_place(attributes)
            new = await self._born(wanted, options, attributes, self._moment())
            put = _birth(served, served.key(where.namespace, metadata["name"]), new)
            if options.dry_run:
                if self.store.get(put.key) is None:
                    return Outcome(Found(served, put.value, None), created=True)
            else:
                try:
                    written = await self._commit(served, put, *self.admission.provisos(attributes, new))
                    return _created(served, put, written.events[-1])
                except Mismatch:
                    pass
        raise api_errors.already_exists(served.resource, served.group, metadata["name"])

    async def create_together(
        self, served: Served, objects: Iterable[Raw], options: WriteOptions, caller: Caller
    ) -> Sequence[Outcome]:
        """Create named objects in one transaction; none if one is refused or needs a check in the transaction."""
        puts: dict[str, Put] = {}
        now = self._moment()
        for obj in objects:
            where = Where(served, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            attributes = Attributes("CREATE", where, caller)
            self.admission.check_place(attributes)
            new = await self._born(Wanted(obj), options, attributes, now)
            if where.key in puts or self.admission.provisos(attributes, new):
                return ()
            puts[where.key] = _birth(served, where.key, new)
        written = await self.store.commit(puts.values())
        for event in written.events:
            self._noted(served, event)
        return [_created(served, put, event) for put, event in zip(puts.values(), written.events, strict=True)]

    async def seed(self, objects: Iterable[Raw], caller: Caller) -> None:
        """Create those of `objects` that do not exist yet, in one transaction."""
        writes, now = [], self._moment()
        for obj in objects:
            served = self.catalogue.of_kind(obj["apiVersion"], obj["kind"])
            if served is None:
                continue
            where = Where(served, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            if self.store.get(where.key) is None:
                attributes = Attributes("CREATE", where, caller)
                new = await self._born(Wanted(obj), WriteOptions(field_manager=caller.user_agent), attributes, now)
                writes.append(Put(where.key, pack(new), ABSENT))
        if writes:
            await self.store.commit(writes)

    async def record(self, served: Served, events: Iterable[Raw], caller: Caller) -> None:
        """Create Events of this process in one transaction; refused ones are dropped.

        They are complete and nobody else writes them, so they are not decoded again and have no managedFields.
        """
        writes, now = [], self._moment()
        for event in events:
            where = Where(served, event["metadata"]["namespace"], event["metadata"]["name"])
            attributes = Attributes("CREATE", where, caller)
            with contextlib.suppress(ApiFault):
                self.admission.check_place(attributes)
                complete = {
                    **event,
                    "metadata": {**event["metadata"], "uid": self._new_uid(), "creationTimestamp": now},
                }
                new = await self._admitted(attributes, complete)
                put = Put(where.key, pack(new))
                if checks := self.admission.provisos(attributes, new):
                    await self._commit(served, put, *checks)
                else:
                    writes.append(put)
        if writes:
            await self.store.commit(writes)

    def _moment(self) -> str:
        return timestamp(self.clock.now())

    async def _born(self, wanted: Wanted, options: WriteOptions, attributes: Attributes, now: str) -> Raw:
        where, obj = attributes.where, wanted.obj
        served = where.served
        obj = {**obj, "metadata": {**obj["metadata"]}}  # copied, so that the caller's object does not change
        prepare_create(served, obj, self.fitter.blank_status(served))
        obj = self.fitter.complete(served, obj)
        if not wanted.applied:
            obj = self.fitter.owned(where, obj, None, options.field_manager or attributes.caller.user_agent, now)
        obj["metadata"] |= {"uid": self._new_uid(), "creationTimestamp": now}
        give_birth(served, obj)
        return await self._admitted(attributes, obj)

    async def _admitted(self, attributes: Attributes, obj: Raw) -> Raw:
        """A new object after admission and validation."""
        served = attributes.where.served
        for plugin in self.admission.mutating(attributes):
            obj = await plugin.mutate(attributes, obj, None)
        causes = metadata_causes(obj["metadata"], served.kind.id)
        causes += self.fitter.complaints(served, obj, None)
        if causes:
            raise _invalid(served, obj["metadata"].get("name") or "", causes)
        for plugin in self.admission.validating(attributes):
            await plugin.validate(attributes, obj, None)
        return obj

    async def _commit(self, served: Served, operation: Put | Delete, *beside: Proposal) -> Written:
        """Write, preceded in the same transaction by the operations of `extra_writes`; each of them may refuse."""

        def propose(draft: Draft) -> list[Operation]:
            return [*(extra for extra_write in beside for extra in extra_write(draft)), operation]

        written = await (self.store.transact(propose) if beside else self.store.commit([operation]))
        self._noted(served, written.events[-1])
        return written

    def _noted(self, served: Served, event: Event) -> None:
        self._recent.note(served, event)
        if callback := self.after_writes.get(served.group):
            callback()

    def _addressed(self, where: Where, obj: Raw) -> Raw:
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

    async def update(self, where: Where, obj: Raw, options: WriteOptions, caller: Caller) -> Outcome:
        served, name = where.served, where.name
        metadata = self._addressed(replace(where, name=""), obj)
        if metadata.get("name", "") != name:
            message = f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL ({name})"
            raise api_errors.bad_request(message if metadata.get("name") else "name must be provided")
        may_create = (
            served.storage in _CREATE_ON_UPDATE and not where.subresource and not metadata.get("resourceVersion")
        )
        if may_create and self.store.get(where.key) is None:
            return await self.create(where, Wanted(obj), options, caller)

        def replacement(_: Raw) -> Wanted:
            return Wanted({**obj, "metadata": {**metadata}})

        return await self.change(where, replacement, options, caller, replaces=True)

    async def change(
        self,
        where: Where,
        change: Change,
        options: WriteOptions,
        caller: Caller,
        *,
        replaces: bool = False,
        beside: Sequence[Proposal] = (),
    ) -> Outcome:
        """Update the object to what `change` returns, and retry when others write in between."""
        try:
            return await self._attempt(where, change, options, caller, replaces=replaces, beside=beside)
        except Mismatch:
            async with self._turns.of(where.key):  # writers that had a conflict queue up, so that each makes progress
                for _ in range(_TRIES):
                    with contextlib.suppress(Mismatch):
                        return await self._attempt(where, change, options, caller, replaces=replaces, beside=beside)
        raise api_errors.conflict(where.served.resource, where.served.group, where.name)

    async def _attempt(
        self,
        where: Where,
        change: Change,
        options: WriteOptions,
        caller: Caller,
        *,
        replaces: bool,
        beside: Sequence[Proposal],
    ) -> Outcome:
        served, name = where.served, where.name
        entry = self.entry(where)
        old = self._recent.decoded(served, entry)
        wanted = change(old)
        requires_version = self._check_identity(served, old["metadata"], wanted.obj, replaces=replaces)
        try:
            attributes = Attributes("UPDATE", where, caller, options.dry_run)
            return await self._changed(entry, old, wanted, options, attributes, beside)
        except Mismatch:
            if requires_version:
                raise api_errors.conflict(served.resource, served.group, name) from None
            raise

    def _check_identity(self, served: Served, old: Raw, new: Raw, *, replaces: bool) -> bool:
        """Whether the new object requires the version it was derived from; raises if that is not the current one."""
        metadata = new["metadata"]
        name = metadata.get("name", "")
        version, uid = metadata.get("resourceVersion") or "", metadata.get("uid") or ""
        if uid and uid != (current_uid := old.get("uid", "")):
            if not replaces:
                message = f"Invalid value: {api_errors.quoted(uid)}: field is immutable"
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
            raise api_errors.plain_error(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if number not in (int(old["resourceVersion"]), 0):
            raise api_errors.conflict(served.resource, served.group, name)
        return replaces and number != 0

    async def _changed(
        self,
        entry: Entry,
        old: Raw,
        wanted: Wanted,
        options: WriteOptions,
        attributes: Attributes,
        beside: Sequence[Proposal],
    ) -> Outcome:
        served, name, subresource = attributes.where.served, attributes.where.name, attributes.where.subresource
        new = carry_over(served, wanted.obj, old, subresource, whole=options.include_status)
        new = self.fitter.complete(served, new)
        if not wanted.applied:
            manager = options.field_manager or attributes.caller.user_agent
            new = self.fitter.owned(attributes.where, new, old, manager, self._moment(), whole=options.include_status)
        for plugin in self.admission.mutating(attributes):
            new = await plugin.mutate(attributes, new, old)
        causes = update_causes(new["metadata"], old["metadata"], served.kind.id)
        causes += self.fitter.complaints(served, new, old, subresource)
        if causes:
            raise _invalid(served, name, causes)
        for plugin in self.admission.validating(attributes):
            await plugin.validate(attributes, new, old)
        value = pack(served.inward(new) if served.inward else new)
        # the same members in another order have the same length
        if len(value) == len(entry.value) and (value == entry.value or _same(new, old)):
            return Outcome(Found(served, entry.value, entry.mod_revision))
        removed = _completes_deletion(served, new)
        if options.dry_run:
            return Outcome(Found(served, value, entry.mod_revision), deleted=removed)
        if removed:
            written = await self._commit(served, Delete(entry.key, entry.mod_revision), *beside)
        else:
            written = await self._commit(
                served, Put(entry.key, value, entry.mod_revision, memo_of(served, new)), *beside
            )
        return Outcome(Found(served, value, written.events[-1].revision, written.events[-1]), deleted=removed)

    # deleting

    async def delete(self, where: Where, options: DeleteOptions, caller: Caller) -> tuple[Outcome, Raw]:
        """Delete, or start to delete; returns the last state of the object and a Status."""
        served, name = where.served, where.name
        for _ in range(_TRIES):
            entry = self.entry(where)
            old = unpack(served, entry.value, entry.mod_revision)
            _check_preconditions(served, old, options)
            attributes = Attributes("DELETE", where, caller, options.dry_run)
            for plugin in self.admission.validating(attributes):
                await plugin.validate(attributes, None, old)
            plan = plan_deletion(served, old, options, self.clock.now())
            extra = self.beside_deletion(where, options, caller)
            try:
                return await self._deleted(served, entry, plan, options, *([extra] if extra else []))
            except Mismatch:
                continue
        raise api_errors.conflict(served.resource, served.group, name)

    async def _deleted(
        self, served: Served, entry: Entry, plan: Deletion, options: DeleteOptions, *beside: Proposal
    ) -> tuple[Outcome, Raw]:
        status = _deleted_status(served, plan.obj["metadata"])
        if plan.unchanged:
            return Outcome(Found(served, entry.value, entry.mod_revision)), status
        obj = served.inward(plan.obj) if served.inward else plan.obj
        value = pack(obj)
        if options.dry_run:
            return Outcome(Found(served, value, entry.mod_revision), deleted=plan.gone), status
        if plan.gone:
            written = await self._commit(served, Delete(entry.key, entry.mod_revision), *beside)
        else:
            written = await self._commit(served, Put(entry.key, value, entry.mod_revision), *beside)
        return Outcome(Found(served, value, written.events[-1].revision), deleted=plan.gone), status

    async def delete_collection(
        self, where: Where, chosen: ListOptions, options: DeleteOptions, caller: Caller
    ) -> Batch:
        served = where.served
        batch = self.list(where, chosen)
        for start in range(0, len(batch.entries), _TOGETHER):  # so that many share one commit
            chunk = batch.entries[start : start + _TOGETHER]
            await asyncio.gather(*(self._delete_if_there(served, entry.key, options, caller) for entry in chunk))
        return batch

    async def _delete_if_there(self, served: Served, key: str, options: DeleteOptions, caller: Caller) -> None:
        namespace, _, name = key.removeprefix(served.prefix).rpartition("/")
        try:
            await self.delete(Where(served, namespace, name), options, caller)
        except ApiFault as fault:
            if fault.code != 404:  # deleted meanwhile
                raise


def _birth(served: Served, key: str, fresh: Raw) -> Put:
    return Put(key, pack(served.inward(fresh) if served.inward else fresh), ABSENT, memo_of(served, fresh))


def _created(served: Served, put: Put, event: Event) -> Outcome:
    return Outcome(Found(served, put.value, event.revision, event), created=True)


def _invalid(served: Served, name: str, causes: Sequence[Cause]) -> Invalid:
    group = "" if served.storage == "events" else served.group  # both versions of events are validated as the core one
    return api_errors.invalid(served.kind.name, group, name, causes)


def _completes_deletion(served: Served, new: Raw) -> bool:
    """Whether the object is in deletion and nothing delays its removal any more."""
    metadata = new["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (served.storage == "namespaces" and new.get("spec", {}).get("finalizers"))
    )


def _same(new: Raw, old: Raw) -> bool:
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


def _check_preconditions(served: Served, old: Raw, options: DeleteOptions) -> None:
    metadata = old["metadata"]
    name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
    if options.uid and options.uid != uid:
        raise _precondition(served, name, "UID", options.uid, uid)
    if options.version and options.version != version:
        raise _precondition(served, name, "ResourceVersion", options.version, version)


def _precondition(served: Served, name: str, what: str, asked: str, found: str) -> ApiFault:
    message = f"the {what} in the precondition ({asked}) does not match the {what} in record ({found}). "
    ending = (
        "The object might have been deleted and then recreated"
        if what == "UID"
        else "The object might have been modified"
    )
    return api_errors.conflict(served.kind.name, served.group, name, message + ending)


def _deleted_status(served: Served, metadata: Mapping[str, Any]) -> Raw:
    details: Raw = {"name": metadata["name"]}
    if served.group:
        details["group"] = served.group
    details |= {"kind": served.resource, "uid": metadata["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
