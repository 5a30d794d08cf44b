"""Terminating namespaces: their contents are deleted, then they are finalized."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from trimtab.server.auth.user import Caller
from trimtab.server.background.object_changes import change_object
from trimtab.server.background.object_metadata import decode_metadata, is_in_deletion
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.options import DeleteOptions, ListOptions
from trimtab.server.resources import ObjectPath


class NamespaceContents:
    """Empties namespaces."""

    def __init__(self, resource_store: ResourceStore, caller: Caller, grace_seconds: float) -> None:
        """`grace_seconds` pass before a deleted namespace is emptied, and between two failed attempts."""
        self._resource_store = resource_store
        self._store = resource_store.store
        self._caller = caller
        self._grace = timedelta(seconds=grace_seconds)
        self._next_attempts: dict[str, datetime] = {}
        """When to try again to empty a namespace."""

    async def delete_all(self, key: str, where: ObjectPath | None) -> bool:
        """Delete the contents of a terminating namespace, then finalize it; False to try again later."""
        entry = self._store.get(key)
        if entry is None or where is None or not decode_metadata(entry.value).deletion_timestamp:
            self._next_attempts.pop(key, None)
            return True
        if self._grace:
            now = self._resource_store.clock.now()
            if now < self._next_attempts.setdefault(key, now + self._grace):
                return False
            del self._next_attempts[key]  # another attempt begins a new wait
        name = where.name
        remaining = 0
        for served in self._resource_store.catalogue.stored_resources():
            if served.kind.namespaced and self._store.count(served.collection_prefix(name)):
                if self._has_undeleted(served.collection_prefix(name)):
                    options = DeleteOptions("Background")
                    await self._resource_store.delete_collection(
                        ObjectPath(served, name), ListOptions(), options, self._caller
                    )
                remaining += self._store.count(served.collection_prefix(name))
        if remaining:
            self._next_attempts[key] = self._resource_store.clock.now()  # no further wait when the last object is gone
            return True  # deletion of the last object triggers this again
        finalized = replace(where, subresource="finalize")
        await change_object(
            self._resource_store, finalized, lambda old: {**old, "spec": {"finalizers": []}}, self._caller
        )
        return True

    def _has_undeleted(self, prefix: str) -> bool:
        """Whether an object there is not in deletion yet; checked whenever an object of the namespace is deleted."""
        return any(not is_in_deletion(entry.value) for entry in self._store.list(prefix).entries)
