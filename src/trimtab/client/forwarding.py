"""A client that passes every request to another one; subclasses change some requests, or do something around all of them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from trimtab.api.value import Raw
from trimtab.client.client import (
    Changes,
    Client,
    Listing,
    PatchType,
    PlainResponse,
    Propagation,
    Resource,
    WatchEvent,
)

T = TypeVar("T")


class ForwardingClient:
    """A Client with the answers of `inner`."""

    def __init__(self, inner: Client) -> None:
        self._inner = inner

    async def forward(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send one request; everything but watches and lists in parts passes here."""
        return await request()

    @property
    def takes_status(self) -> bool:
        return self._inner.takes_status

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        return await self.forward(lambda: self._inner.get(resource, namespace, name))

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        return await self.forward(lambda: self._inner.list(resource, namespace, labels=labels, fields=fields))

    def list_pages(self, resource: Resource, namespace: str = "", *, labels: str = "") -> AsyncIterator[Listing]:
        return self._inner.list_pages(resource, namespace, labels=labels)

    def list_changes(
        self, resource: Resource, known: Mapping[tuple[str, str], str], *, revision: str, labels: str = ""
    ) -> AsyncIterator[Changes]:
        return self._inner.list_changes(resource, known, revision=revision, labels=labels)

    def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        return self._inner.watch(resource, namespace, revision=revision, labels=labels, fields=fields)

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
        return await self.forward(
            lambda: self._inner.create(
                resource, obj, manager=manager, dry_run=dry_run, typed=typed, with_status=with_status
            )
        )

    async def create_together(
        self, resource: Resource, objects: Sequence[Raw], *, manager: str = "trimtab"
    ) -> Sequence[Raw] | None:
        return await self.forward(lambda: self._inner.create_together(resource, objects, manager=manager))

    async def record(self, events: Sequence[Raw]) -> None:
        await self.forward(lambda: self._inner.record(events))

    async def replace(self, resource: Resource, obj: Raw, *, subresource: str = "", manager: str = "trimtab") -> Raw:
        return await self.forward(lambda: self._inner.replace(resource, obj, subresource=subresource, manager=manager))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        *,
        type: PatchType = "merge",  # noqa: A002 - it is what kubectl calls it
        subresource: str = "",
        manager: str = "trimtab",
        force: bool = False,
        typed: bool = False,
    ) -> Raw:
        return await self.forward(
            lambda: self._inner.patch(
                resource,
                namespace,
                name,
                patch,
                type=type,
                subresource=subresource,
                manager=manager,
                force=force,
                typed=typed,
            )
        )

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
        await self.forward(
            lambda: self._inner.delete(
                resource,
                namespace,
                name,
                uid=uid,
                revision=revision,
                propagation=propagation,
                grace_seconds=grace_seconds,
            )
        )

    async def submit(self, resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
        return await self.forward(lambda: self._inner.submit(resource, namespace, name, subresource, obj))

    async def resources(self) -> Sequence[Resource]:
        return await self.forward(self._inner.resources)

    async def fetch(self, path: str) -> PlainResponse:
        return await self.forward(lambda: self._inner.fetch(path))

    async def close(self) -> None:
        await self._inner.close()
