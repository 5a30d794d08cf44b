"""Deletes objects: at once, after a grace period, or when their last finalizer is removed."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from trimtab.api.value import Raw
from trimtab.clock import Clock
from trimtab.errors import ApiError
from trimtab.server import api_errors
from trimtab.server.admission.chain import AdmissionChain, Attributes
from trimtab.server.auth.user import Caller
from trimtab.server.registry.deletion import RETURNS_OBJECT, DeletionPlan, plan_deletion
from trimtab.server.registry.object_commits import ObjectCommits, WriteOutcome, stored_form
from trimtab.server.registry.object_reader import ObjectReader
from trimtab.server.request import large_objects
from trimtab.server.request.options import DeleteOptions, ListOptions
from trimtab.server.resources import ObjectPath, ServedResource
from trimtab.server.storage.object_codec import ObjectList, StoredObject, event_memo, unpack
from trimtab.server.storage.version_conversion import entries_in_version, put_in_storage_version
from trimtab.store.records import StoredEntry
from trimtab.store.txn import DeleteKey, Proposal, PutKey, RevisionMismatch

_MAX_ATTEMPTS = 100
_PARALLEL_DELETES = 32
"""How many objects of a collection are deleted concurrently."""

DeletionWrites = Callable[[ObjectPath, DeleteOptions, Caller], Proposal | None]
"""Returns further writes for the same transaction as a deletion."""


def no_further_writes(where: ObjectPath, options: DeleteOptions, caller: Caller) -> None:
    return None


class ObjectDeletion:
    """Deletes one object, or all objects of a list."""

    def __init__(
        self,
        reader: ObjectReader,
        commits: ObjectCommits,
        admission: AdmissionChain,
        clock: Clock,
        further_writes: DeletionWrites,
    ) -> None:
        self._reader = reader
        self._commits = commits
        self._admission = admission
        self._clock = clock
        self._further_writes = further_writes

    async def delete(self, where: ObjectPath, options: DeleteOptions, caller: Caller) -> tuple[WriteOutcome, Raw]:
        """Delete, or start to delete; returns the last state of the object and a Status."""
        served, name = where.served, where.name
        for _ in range(_MAX_ATTEMPTS):
            (entry,) = await entries_in_version(served, [self._reader.entry(where)])
            value = entry.value
            is_large = large_objects.is_large(value)
            old = await large_objects.run(is_large, unpack, served, value, entry.mod_revision)
            _check_preconditions(served, old, options)
            attributes = Attributes("DELETE", where, caller, options.dry_run)
            for plugin in self._admission.plugins_for(attributes).validating:
                await plugin.validate(attributes, None, old)
            plan = plan_deletion(served, old, options, self._clock.now())
            extra = self._further_writes(where, options, caller)
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
        value = entry.value
        if not plan.removed or served.storage in RETURNS_OBJECT:  # otherwise nobody sees the marks of the deletion
            value = await large_objects.run(large_objects.is_large(value), stored_form, served, plan.obj)
        if options.dry_run:
            return WriteOutcome(StoredObject(served, value, entry.mod_revision), deleted=plan.removed), status
        if plan.removed:
            written = await self._commits.commit(served, DeleteKey(entry.key, entry.mod_revision), *beside)
        else:
            put = await put_in_storage_version(
                served, PutKey(entry.key, value, entry.mod_revision, event_memo(served, plan.obj))
            )
            written = await self._commits.commit(served, put, *beside)
        return WriteOutcome(StoredObject(served, value, written.events[-1].revision), deleted=plan.removed), status

    async def delete_collection(
        self, where: ObjectPath, list_options: ListOptions, options: DeleteOptions, caller: Caller
    ) -> ObjectList:
        served = where.served
        plan = self._reader.plan_list(where, list_options)
        plan = plan._replace(entries=await entries_in_version(served, plan.entries))
        batch = plan.finish(await large_objects.run(plan.is_expensive(), plan.matching_entries))
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
