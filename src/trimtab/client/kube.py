"""A Client over HTTP, to any Kubernetes API server: each call of the interface as a request, its answer decoded."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from trimtab.api.value import Raw
from trimtab.client.client import (
    EVENTS,
    Changes,
    Listing,
    PatchType,
    PlainResponse,
    Propagation,
    Resource,
    WatchEvent,
    changes_in_pages,
)
from trimtab.client.connection_pool import MAX_PLAIN_BYTES
from trimtab.client.discovery import DiscoveryClient
from trimtab.client.kubeconfig import Credentials
from trimtab.client.responses import decode_event, decode_list, decode_object, text_in
from trimtab.client.transport import STREAM_SECONDS, HTTPTransport
from trimtab.clock import Clock
from trimtab.errors import ApiError, Expired

if TYPE_CHECKING:
    import aiohttp

PATCH_TYPES: Mapping[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
PAGE_SIZE = 2000
CATCH_UP_SECONDS = 4
"""How long a watch for changes of the past may take; most of it is waiting for the bookmark."""
MAX_EVENT_BYTES = 16 << 20


class KubeClient:
    """A client of one API server; reads and sends JSON."""

    def __init__(
        self,
        credentials: Credentials,
        clock: Clock | None = None,
        *,
        agent: str = "trimtab",
        before_write: Callable[[], None] | None = None,
    ) -> None:
        """`before_write` is called before every request that may change something; it raises to prevent the request."""
        self._transport = HTTPTransport(credentials, clock, agent=agent, before_write=before_write)
        self._discovery = DiscoveryClient(self._transport)

    @property
    def requests(self) -> int:
        """The number of requests sent."""
        return self._transport.requests

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        return decode_object(await self._transport.request("GET", resource.path(namespace, name)))

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        items: list[Raw] = []
        revision = ""
        async for page in self.list_pages(resource, namespace, labels=labels, fields=fields):
            items += page.items
            revision = page.revision
        return Listing(items, revision)

    async def list_pages(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Listing]:
        token = ""
        while True:
            query = {"labelSelector": labels, "fieldSelector": fields, "limit": PAGE_SIZE, "continue": token}
            page = decode_list(await self._transport.request("GET", resource.path(namespace), query))
            # List items lack apiVersion and kind; callers get complete objects.
            type_of = {"apiVersion": resource.api_version, "kind": resource.kind}
            yield Listing([type_of | item for item in page.get("items") or []], page["metadata"]["resourceVersion"])
            token = text_in(page["metadata"], "continue")
            if not token:
                return

    async def list_changes(
        self, resource: Resource, known: Mapping[tuple[str, str], str], *, revision: str, labels: str = ""
    ) -> AsyncIterator[Changes]:
        """Watch from the revision where the server still has it; else list everything and compare."""
        try:
            changes = await self._changes_since(resource, revision, labels)
        except (ApiError, ValueError):  # the revision is too old, or the server was restored to an earlier one
            async for part in changes_in_pages(self.list_pages(resource, labels=labels), known):
                yield part
        else:
            yield changes

    async def _changes_since(self, resource: Resource, revision: str, labels: str) -> Changes:
        """All changes up to now, from a watch; `ApiError` if the server cannot tell them.

        An event or a bookmark of the revision of a list made before says that the watch has reached it. A server sends a
        bookmark two seconds before the end of a watch.
        """
        query: dict[str, str | int] = {"labelSelector": labels, "limit": 1}
        listed = decode_list(await self._transport.request("GET", resource.path(), query))
        target = int(listed["metadata"]["resourceVersion"])
        if target < int(revision):
            raise Expired(f"the server is at revision {target}, before {revision}")
        latest: dict[tuple[str, str], WatchEvent] = {}
        watch = self.watch(resource, revision=revision, labels=labels, seconds=CATCH_UP_SECONDS)
        async with aclosing(watch) as batches:
            async for batch in batches:
                for event in batch:
                    metadata = event.object["metadata"]
                    revision = metadata["resourceVersion"]
                    if event.type != "BOOKMARK":
                        latest[metadata.get("namespace", ""), metadata["name"]] = event
                if int(revision) >= target:
                    changed = [event.object for event in latest.values() if event.type != "DELETED"]
                    gone = [name for name, event in latest.items() if event.type == "DELETED"]
                    return Changes(changed, gone, revision)
        raise Expired(f"the watch ended before revision {target}")

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        revision: str,
        labels: str = "",
        fields: str = "",
        seconds: int = STREAM_SECONDS,
    ) -> AsyncGenerator[Sequence[WatchEvent], None]:
        query: dict[str, str | int] = {
            "watch": "1",
            "resourceVersion": revision,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
            "labelSelector": labels,
            "fieldSelector": fields,
        }
        rest = b""
        async with aclosing(self._transport.stream(resource.path(namespace), query)) as chunks:
            async for chunk in chunks:
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                if len(rest) > MAX_EVENT_BYTES:
                    raise ApiError("the server sent a watch event that is too large")
                if changes := [decode_event(line) for line in lines if line]:
                    yield changes

    @property
    def takes_status(self) -> bool:
        return False

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
        query = {"fieldManager": manager, "dryRun": "All" if dry_run else ""}
        namespace = obj["metadata"].get("namespace", "")
        return decode_object(await self._transport.request("POST", resource.path(namespace), query, obj))

    async def create_together(
        self, resource: Resource, objects: Sequence[Raw], *, manager: str = "trimtab"
    ) -> Sequence[Raw] | None:
        """Kubernetes has no such call."""
        return None

    async def record(self, events: Sequence[Raw]) -> None:
        creations = (self.create(EVENTS, event, manager=event["reportingComponent"]) for event in events)
        for result in await asyncio.gather(*creations, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, ApiError):
                raise result

    async def replace(self, resource: Resource, obj: Raw, *, subresource: str = "", manager: str = "trimtab") -> Raw:
        metadata = obj["metadata"]
        path = resource.path(metadata.get("namespace", ""), metadata["name"], subresource)
        return decode_object(await self._transport.request("PUT", path, {"fieldManager": manager}, obj))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        *,
        type: PatchType = "merge",  # noqa: A002 - kubectl's name for it
        subresource: str = "",
        manager: str = "trimtab",
        force: bool = False,
        typed: bool = False,
        dry_run: bool = False,
    ) -> Raw:
        query = {"fieldManager": manager, "force": "true" if force else "", "dryRun": "All" if dry_run else ""}
        path = resource.path(namespace, name, subresource)
        return decode_object(await self._transport.request("PATCH", path, query, patch, PATCH_TYPES[type]))

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
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", revision)) if value}
        options: Raw = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self._transport.request("DELETE", resource.path(namespace, name), body=options)

    async def submit(self, resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
        return decode_object(
            await self._transport.request("POST", resource.path(namespace, name, subresource), body=obj)
        )

    async def resources(self) -> Sequence[Resource]:
        return await self._discovery.resources()

    async def fetch(self, path: str) -> PlainResponse:
        reply = await self._transport.send("GET", path, await self._transport.headers(), limit=MAX_PLAIN_BYTES)
        return PlainResponse(reply.status, reply.body)

    async def forward(
        self, method: str, path: str, query: Mapping[str, str], headers: Sequence[tuple[str, str]], body: bytes
    ) -> "aiohttp.ClientResponse":
        return await self._transport.forward(method, path, query, headers, body)

    def download(self, path: str) -> AsyncIterator[bytes]:
        return self._transport.download(path)

    async def close(self) -> None:
        await self._transport.close()
