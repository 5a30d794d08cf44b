"""A client that calls an API server in process, without HTTP, on any event loop; only large objects need a thread."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import orjson

from trimtab.api.value import Raw
from trimtab.client.client import EVENTS, Changes, Listing, PatchType, Propagation, Resource, WatchEvent
from trimtab.client.client import PlainResponse as ClientResponse
from trimtab.clock import VirtualLoop
from trimtab.errors import ApiError
from trimtab.server import api_errors
from trimtab.server.apiserver import ApiServer
from trimtab.server.auth.user import SYSTEM, UNNAMED_AGENT, Caller, User
from trimtab.server.http.asgi import error_response
from trimtab.server.registry.object_commits import WriteOutcome
from trimtab.server.registry.object_schema import DesiredObject
from trimtab.server.registry.patch_requests import JSON_PATCH, MERGE, STRATEGIC
from trimtab.server.registry.selector_matching import MATCH_EVERYTHING, RequestSelector, parse_selectors
from trimtab.server.registry.watch import filter_event
from trimtab.server.request import large_objects
from trimtab.server.request.body_decoding import DecodedBody
from trimtab.server.request.messages import Request, Response
from trimtab.server.request.negotiation import JSON
from trimtab.server.request.options import TRUSTED, DeleteOptions, ListOptions, WriteOptions
from trimtab.server.resources import ObjectPath, ServedResource
from trimtab.server.storage.object_codec import decode_event, unpack
from trimtab.server.storage.version_conversion import entries_in_version, event_in_version
from trimtab.server.subresources.dispatch import success_status
from trimtab.store.records import StoredEntry, StoreEvent

PAGE_SIZE = 500
"""Objects of a list that are decoded at a time."""
_STATUS_PAGES = frozenset(("/healthz", "/livez", "/readyz", "/version"))
"""Pages that are the same for every caller; probes read them every few seconds."""
_PATCH_MEDIA_TYPES = {"merge": MERGE, "json": JSON_PATCH, "strategic": STRATEGIC}


class LocalClient:
    """A client of an API server in the same process, as one user and without RBAC checks."""

    def __init__(self, server: ApiServer, user: User = SYSTEM) -> None:
        self._server = server
        self._resource_store = server.resource_store
        self._user = user
        self._discovered: tuple[Mapping[tuple[str, str], ServedResource], Sequence[Resource]] = ({}, ())
        """The result of the last discovery, and the state of the catalogue that it was made of."""

    def _object_path(
        self, resource: Resource, namespace: str = "", name: str = "", subresource: str = ""
    ) -> ObjectPath:
        served = self._server.catalogue.find(resource.group, resource.version, resource.plural)
        if served is None:
            raise api_errors.no_such_path()
        return ObjectPath(served, namespace if served.kind.namespaced else "", name, subresource)

    def _object_path_of(self, resource: Resource, obj: Raw, subresource: str = "") -> ObjectPath:
        metadata = obj.get("metadata") or {}
        return self._object_path(resource, metadata.get("namespace") or "", metadata.get("name") or "", subresource)

    def _caller(self, manager: str) -> Caller:
        if self._server.flow_control is not None:
            self._server.flow_control.note_exempt()
        return Caller(self._user, manager)

    @property
    def takes_status(self) -> bool:
        """False when webhooks are configured, because they match an object and its status separately."""
        return not self._server.webhooks.is_configured

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        return (await self._resource_store.read(self._object_path(resource, namespace, name))).raw()

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        where = self._object_path(resource, namespace)
        batch = self._resource_store.list(where, ListOptions(labels, fields))
        if where.served.converter is not None:
            batch = batch._replace(entries=await entries_in_version(where.served, batch.entries))
        return Listing(list(batch.raw_items()), str(batch.revision))

    async def list_pages(self, resource: Resource, namespace: str = "", *, labels: str = "") -> AsyncIterator[Listing]:
        where = self._object_path(resource, namespace)
        batch = self._resource_store.list(where, ListOptions(labels))
        entries = batch.entries
        for first in range(0, max(1, len(entries)), PAGE_SIZE):
            if first:
                await asyncio.sleep(0)
            page = batch._replace(entries=entries[first : first + PAGE_SIZE])
            if where.served.converter is not None:
                page = page._replace(entries=await entries_in_version(where.served, page.entries))
            yield Listing(list(page.raw_items()), str(batch.revision))

    async def list_changes(
        self, resource: Resource, known: Mapping[tuple[str, str], str], *, revision: str, labels: str = ""
    ) -> AsyncIterator[Changes]:
        """Compares revisions in the store, whatever its history keeps; only what differs is decoded."""
        where = self._object_path(resource)
        served, choice = where.served, parse_selectors(where.served, labels, "")
        prefix = served.collection_prefix("")
        listed = self._resource_store.store.list(prefix)
        missing, differing = set(known), []
        for entry in listed.entries:
            namespace, _, name = entry.key[len(prefix) :].rpartition("/")
            if known.get((namespace, name)) != str(entry.mod_revision):
                differing.append(entry)
            else:
                missing.discard((namespace, name))
        for first in range(0, len(differing), PAGE_SIZE):
            await asyncio.sleep(0)
            entries: Sequence[StoredEntry] = differing[first : first + PAGE_SIZE]
            if served.converter is not None:
                entries = await entries_in_version(served, entries)
            changed = [
                unpack(served, value, entry.mod_revision) for entry in entries if choice.matches(value := entry.value)
            ]
            missing.difference_update(
                (raw["metadata"].get("namespace", ""), raw["metadata"]["name"]) for raw in changed
            )
            yield Changes(changed, (), str(listed.revision))
        yield Changes((), sorted(missing), str(listed.revision))

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        where = self._object_path(resource, namespace)
        choice = parse_selectors(where.served, labels, fields)
        event_batches = self._resource_store.store.watch(where.served.collection_prefix(where.namespace), int(revision))
        async for batch in event_batches:
            events = batch
            if where.served.converter is not None:
                events = [await event_in_version(where.served, event) for event in batch]
            changes = [
                change for event in events if (change := _change_for_watcher(event, where.served, choice)) is not None
            ]
            if changes:
                yield changes

    async def create(
        self,
        resource: Resource,
        obj: Raw,
        *,
        manager: str = "trimtab",
        dry_run: bool = False,
        typed: bool = False,
        with_status: bool = False,
    ) -> Raw:
        metadata = obj.get("metadata") or {}
        where, caller = self._object_path(resource, metadata.get("namespace") or ""), self._caller(manager)
        decoded_object = await self._decode_object(where.served, obj, caller, typed=typed)
        options = WriteOptions(manager, dry_run, "Ignore", include_status=with_status)
        return _written_object(await self._resource_store.create(where, DesiredObject(decoded_object), options, caller))

    async def create_together(
        self, resource: Resource, objects: Sequence[Raw], *, manager: str = "trimtab"
    ) -> Sequence[Raw] | None:
        """None when one object is rejected; creating them one by one then shows which and why."""
        served, caller = self._object_path(resource).served, self._caller(manager)
        try:
            decoded_objects = [await self._decode_object(served, obj, caller, typed=True) for obj in objects]
            outcomes = await self._resource_store.create_together(
                served, decoded_objects, WriteOptions(manager), caller
            )
        except ApiError:
            return None
        return [_written_object(outcome) for outcome in outcomes] or None

    async def _decode_object(self, served: ServedResource, obj: Raw, caller: Caller, *, typed: bool = False) -> Raw:
        _note_size(caller, obj)
        if typed and not served.message:
            return obj
        decode, body = self._resource_store.object_schema.decode, DecodedBody(obj, [])
        return await large_objects.run(caller.sends_large_object, decode, served, body, "Ignore", caller)

    async def record(self, events: Sequence[Raw]) -> None:
        await self._resource_store.record_events(self._object_path(EVENTS).served, events, self._caller("trimtab"))

    async def replace(self, resource: Resource, obj: Raw, *, subresource: str = "", manager: str = "trimtab") -> Raw:
        where, caller = self._object_path_of(resource, obj, subresource), self._caller(manager)
        decoded_object = await self._decode_object(where.served, obj, caller)
        return _written_object(await self._resource_store.update(where, decoded_object, WriteOptions(manager), caller))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        *,
        type: PatchType = "merge",  # noqa: A002 - the name of the kubectl option
        subresource: str = "",
        manager: str = "trimtab",
        force: bool = False,
        typed: bool = False,
    ) -> Raw:
        where, caller = self._object_path(resource, namespace, name, subresource), self._caller(manager)
        whole = typed and not subresource and "status" in patch
        options = WriteOptions(manager, validation=TRUSTED if typed else "Ignore", force=force, include_status=whole)
        patcher = self._server.patcher
        if typed:
            _note_size(caller, patch)
        if type == "apply":
            outcome = await patcher.apply(where, patch, options, caller)
        elif subresource == "scale":
            return await self._dispatch(
                "PATCH", resource.path(namespace, name, "scale"), patch, _PATCH_MEDIA_TYPES[type]
            )
        else:
            outcome = await patcher.change(
                where, patcher.patch_function(_PATCH_MEDIA_TYPES[type], patch, where.served), options, caller
            )
        return _written_object(outcome)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        revision: str = "",
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        options = DeleteOptions(propagation, grace_seconds, uid=uid, version=revision)
        await self._resource_store.delete(
            self._object_path(resource, namespace, name), options, self._caller("trimtab")
        )

    async def submit(self, resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
        if subresource == "binding":  # once per pod
            where, caller = self._object_path(resource, namespace, name, subresource), self._caller(UNNAMED_AGENT)
            await self._server.subresources.bindings.bind(where, obj, WriteOptions(), caller)
            return success_status(201)
        return await self._dispatch("POST", resource.path(namespace, name, subresource), obj, JSON)

    async def _dispatch(self, method: str, path: str, body: Any, media: str) -> Raw:
        request = Request(
            method, path, {}, {"content-type": media}, body=orjson.dumps(body), certificate_user=self._user
        )
        response = await self._server.handler.handle(request)
        found: Raw = orjson.loads(response.body) if isinstance(response, Response) and response.body else {}
        return found

    async def resources(self) -> Sequence[Resource]:
        preferred = self._server.catalogue.preferred_resources()
        if self._discovered[0] is not preferred:
            self._discovered = (preferred, tuple(map(_resource_of, preferred.values())))
        return self._discovered[1]

    async def fetch(self, path: str) -> ClientResponse:
        path, _, query = path.partition("?")
        pairs = (pair.partition("=") for pair in query.split("&") if pair)
        request = Request("GET", path, {key: value for key, _, value in pairs}, {}, certificate_user=self._user)
        try:
            if path in _STATUS_PAGES:
                response = self._server.nonresource_paths.handle(request, None)
            else:
                response = await self._server.handler.handle(request)
        except ApiError as fault:
            response = error_response(fault)
        return (
            ClientResponse(response.code, response.body) if isinstance(response, Response) else ClientResponse(200, b"")
        )

    async def close(self) -> None:
        """Nothing to close: the client does not own the server."""


def _note_size(caller: Caller, sent: Raw) -> None:
    """Note whether what is sent takes long to process, in a thread; virtual time does not wait for one."""
    if not isinstance(asyncio.get_running_loop(), VirtualLoop):
        caller.sends_large_object = caller.sends_large_object or large_objects.is_large_object(sent)


def _resource_of(served: ServedResource) -> Resource:
    kind = served.kind
    return Resource(served.group, served.version, kind.plural, kind.name, kind.namespaced, served.verbs)


def _written_object(outcome: WriteOutcome) -> Raw:
    """The object after a write; reuses the decoded form that watchers share."""
    found = outcome.stored
    if found.event is None or found.event.entry is None or found.served.converter is not None:
        return found.raw()
    return decode_event(found.event, found.served)


def _change_for_watcher(event: StoreEvent, served: ServedResource, choice: RequestSelector) -> WatchEvent | None:
    """The change for a watcher, None when nothing matches; watchers without a selector share one decoded object."""
    if choice is MATCH_EVERYTHING:
        return WatchEvent(event.type, decode_event(event, served))
    found = filter_event(event, choice)
    return WatchEvent(found.type, unpack(served, found.value, found.revision)) if found is not None else None
