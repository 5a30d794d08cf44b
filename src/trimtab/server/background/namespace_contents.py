"""Terminating namespaces: their pods are deleted, then their other contents, then they are finalized."""

from collections import Counter
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from trimtab.api.value import Raw
from trimtab.server.auth.user import Caller
from trimtab.server.background.namespace_conditions import RemainingContent, conditions_of
from trimtab.server.background.object_changes import change_object
from trimtab.server.background.object_metadata import decode_metadata, is_in_deletion
from trimtab.server.registry.resource_store import ResourceStore
from trimtab.server.request.options import DeleteOptions, ListOptions
from trimtab.server.resources import ObjectPath, ServedResource

_MIN_REPORT_INTERVAL = timedelta(seconds=1)
"""Between two reports about a namespace: each object that is deleted changes what remains."""


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
        self._next_reports: dict[str, datetime] = {}
        """When to look again at what remains in a namespace."""

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
        remaining = await self._delete_objects(where.name)
        if remaining:
            self._next_attempts[key] = self._resource_store.clock.now()  # no further wait when the last object is gone
            return await self._report(key, where, remaining)  # deletion of the last object triggers this again
        self._next_reports.pop(key, None)
        finalized = replace(where, subresource="finalize")
        await change_object(
            self._resource_store, finalized, lambda old: {**old, "spec": {"finalizers": []}}, self._caller
        )
        return True

    async def _delete_objects(self, namespace: str) -> list[ServedResource]:
        """Delete all pods, and the other objects once no pod is left; returns the resources of which some remain."""
        namespaced = [one for one in self._resource_store.catalogue.stored_resources() if one.kind.namespaced]
        pods = [one for one in namespaced if (one.kind.group, one.kind.plural) == ("", "pods")]
        others = [one for one in namespaced if one not in pods]
        return await self._delete_all_of(pods, namespace) or await self._delete_all_of(others, namespace)

    async def _delete_all_of(self, resources: list[ServedResource], namespace: str) -> list[ServedResource]:
        remaining = []
        for served in resources:
            prefix = served.collection_prefix(namespace)
            if not self._store.count(prefix):
                continue
            if self._has_undeleted(prefix):
                where = ObjectPath(served, namespace)
                await self._resource_store.delete_collection(
                    where, ListOptions(), DeleteOptions("Background"), self._caller
                )
            if self._store.count(prefix):
                remaining.append(served)
        return remaining

    async def _report(self, key: str, where: ObjectPath, remaining: list[ServedResource]) -> bool:
        """Write what remains into the conditions of the namespace; False to try again later."""
        entry, now = self._store.get(key), self._resource_store.clock.now()
        if entry is None:
            return True
        if now < self._next_reports.get(key, now):
            return False
        self._next_reports[key] = now + _MIN_REPORT_INTERVAL
        present: list[Raw] = (msgspec.json.decode(entry.value).get("status") or {}).get("conditions") or []
        wanted = conditions_of(self._content_of(remaining, where.name), present, now)
        if wanted == present:
            return True

        def with_conditions(old: Raw) -> Raw:
            return {**old, "status": {**(old.get("status") or {}), "conditions": wanted}}

        await change_object(self._resource_store, replace(where, subresource="status"), with_conditions, self._caller)
        return True

    def _content_of(self, remaining: list[ServedResource], namespace: str) -> RemainingContent:
        content = RemainingContent(Counter(), Counter())
        for served in remaining:
            entries = self._store.list(served.collection_prefix(namespace)).entries
            content.objects[f"{served.kind.plural}.{served.kind.group}"] += len(entries)
            for entry in entries:
                content.finalizers.update(decode_metadata(entry.value).finalizers or ())
        return content

    def _has_undeleted(self, prefix: str) -> bool:
        """Whether an object there is not in deletion yet; checked whenever an object of the namespace is deleted."""
        return any(not is_in_deletion(entry.value) for entry in self._store.list(prefix).entries)
