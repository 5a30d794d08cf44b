"""Writes on the host: typed objects as patches of what differs, objects of any kind, and deletions.

A typed object that exists is patched with what differs from the cached object, provided that the cached object still has
the resourceVersion from which the effect was computed; otherwise `Conflict` is raised and nothing is sent. What the API
server returns goes into the cache at once, so that the next reconcile sees it before the watch delivers it.
"""

from collections.abc import Sequence

from trimtab.api.kind import kind_of, to_wire
from trimtab.api.kinds.disruption import GROUP
from trimtab.api.value import Object, Raw
from trimtab.client.client import Resource
from trimtab.controllers.contract import Controller, Delete, Ensure, Ref
from trimtab.errors import Conflict, NotFound
from trimtab.runtime.cache import Table
from trimtab.runtime.effects.commit import Write, is_same_in_patched_fields, with_version, writes_for
from trimtab.runtime.effects.object_writer import ObjectWriter, target_of
from trimtab.runtime.view import ControlPlaneState

MAX_PATCH_ATTEMPTS = 4
"""Attempts to finish a write of several patches after its first patch was accepted."""


class HostEffects:
    """Carries out effects on the host, for one controller."""

    def __init__(self, controller: Controller, state: ControlPlaneState, writer: ObjectWriter) -> None:
        self._controller = controller
        self._state = state
        self._writer = writer

    async def create_together(self, type_: type[Object], wanted: Sequence[Object]) -> bool:
        """Create the objects in one request; `False` if the client cannot, or an object has a status."""
        table = self._state.cache.by_type[type_]
        bodies = [to_wire(obj) for obj in wanted]
        if any(body.get("status") for body in bodies):
            return False  # a status is written by a second request, after the create
        created = await self._state.client.create_together(table.resource, bodies, manager=self._writer.field_manager)
        for obj in created or ():
            self._writer.writes += 1
            table.put(obj)
        return created is not None

    async def write(self, wanted: Object, *further: Object) -> None:
        """Create a typed object or patch what differs; then patch what differs in each further state, in order."""
        table = self._state.cache.by_type[type(wanted)]
        entry = table.entries.get((wanted.metadata.namespace, wanted.metadata.name))
        if entry is None or not wanted.metadata.resource_version:
            await self._create(table, wanted, is_whole=table.resource.group == GROUP)
            return
        cached = entry.typed
        if entry.revision != wanted.metadata.resource_version:
            raise Conflict(
                "the object has changed since it was read", kind=table.resource.plural, name=wanted.metadata.name
            )
        latest = first = entry.raw
        for before, after in zip((cached, wanted, *further), (wanted, *further), strict=False):
            for write in self._writes_between(before, after, first):
                latest = await self._patch(table, latest, write, begun=latest is not first)

    async def write_in_order(self, steps: Sequence[Object]) -> None:
        """Write the steps in order; in one write, which is the last step, where the server takes spec and status together."""
        last = steps[-1]
        if not last.metadata.resource_version:
            await self._create(self._state.cache.table_of(type(last)), last, is_whole=True)
        else:
            await self.write(*(steps[-1:] if self._state.client.takes_status else steps))

    def _writes_between(self, before: Object, after: Object, raw: Raw) -> list[Write]:
        controller = self._controller
        return writes_for(before, after, raw, controller.writes, controller.subjects, self._state.client)

    async def _patch(self, table: Table, latest: Raw, write: Write, *, begun: bool) -> Raw:
        """Send one patch of a write.

        Once the first patch of a write was accepted (`begun`), a conflict with somebody who changed other fields must
        not leave the write half done: the events that follow it would never be recorded, and the next reconcile would
        find nothing left to do.
        """
        for _ in range(MAX_PATCH_ATTEMPTS if begun else 1):
            try:
                patched = await self._send_patch(table.resource, latest, write)
            except Conflict:
                if not begun:
                    raise
                metadata = latest["metadata"]
                newer = await self._state.client.get(table.resource, metadata.get("namespace", ""), metadata["name"])
                table.put(newer)
                if not is_same_in_patched_fields(write.patch, latest, newer):
                    raise
                latest = newer
            else:
                table.put(patched)
                return patched
        raise Conflict(
            "other clients keep changing this object", kind=table.resource.plural, name=latest["metadata"]["name"]
        )

    async def _send_patch(self, resource: Resource, latest: Raw, write: Write) -> Raw:
        metadata = latest["metadata"]
        self._writer.writes += 1
        return await self._state.client.patch(
            resource,
            metadata.get("namespace", ""),
            metadata["name"],
            with_version(write.patch, metadata["resourceVersion"]),
            subresource=write.subresource,
            manager=self._writer.field_manager,
            typed=True,
        )

    async def _create(self, table: Table, wanted: Object, *, is_whole: bool) -> None:
        """Create an object; `is_whole`: with its status, where the server takes it.

        Kinds of peers are else created as their controllers do: the status is a write of its own.
        """
        body = to_wire(wanted)
        status = body.get("status")
        self._writer.writes += 1
        client, kind = self._state.client, kind_of(wanted)
        whole = bool(status) and client.takes_status and is_whole
        created = await client.create(
            table.resource, body, manager=self._writer.field_manager, typed=True, with_status=whole
        )
        table.put(created)
        if status and kind.status and not whole:
            await self._patch(table, created, Write("status", {"status": status}), begun=True)

    async def ensure(self, effect: Ensure) -> None:
        """Make an object of any kind on the host as wanted."""
        resource = self._state.resource(effect.wanted["apiVersion"], effect.wanted["kind"])
        if resource is None:
            raise NotFound(f"the host does not serve {effect.wanted['apiVersion']} {effect.wanted['kind']}")
        written = await self._writer.ensure(self._state.client, resource, effect)
        table = self._state.cache.find_table(resource.id)
        if table is not None and written is not None:
            table.put(written)

    async def delete(self, effect: Delete) -> None:
        ref = target_of(effect)
        resource = self._state.resource(ref.api_version, ref.kind)
        if resource is None:
            return
        revision = effect.revision or self._cached_revision(resource, ref)
        try:
            await self._writer.delete(self._state.client, resource, ref, revision)
        except NotFound:
            table = self._state.cache.find_table(resource.id)
            if table is not None:
                table.drop((ref.namespace, ref.name))

    def _cached_revision(self, resource: Resource, ref: Ref) -> str:
        """The resourceVersion of the object that the controller saw, where deletions name it."""
        if not self._state.writes_exact_versions:
            return ""
        table = self._state.cache.find_table(resource.id)
        entry = table.entries.get((ref.namespace, ref.name)) if table is not None else None
        return entry.revision if entry is not None else ""
