"""A client of a member cluster that can inject connection failures, timeouts and delays."""

import asyncio
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


class FaultyMemberClient:
    """A Client that forwards to another one and injects faults.

    With `omit_managed_fields` it removes `managedFields`: the components of a cluster never read them, and they are
    half of an object.
    """

    def __init__(self, inner: Client, cluster: str, *, omit_managed_fields: bool = False) -> None:
        self._omit_managed_fields = omit_managed_fields
        self._inner = inner
        self._cluster = cluster
        self._make_fault: Callable[[], Exception] | None = None
        self._timeout_seconds = 0.0
        self._resumed: asyncio.Event | None = None
        self.delay = 0.0
        """Seconds added to every request."""
        self._pending_watches: set[asyncio.Future[Any]] = set()

    @property
    def is_cut_off(self) -> bool:
        return self._make_fault is not None

    def cut_off(self, *, timeout_seconds: float = 0.0) -> None:
        """Let every request fail: refused at once, or timed out after so many seconds."""
        self._timeout_seconds = timeout_seconds
        self._make_fault = self._timeout_error if timeout_seconds else self._connection_refused
        for pending in self._pending_watches:
            pending.cancel()

    def restore(self) -> None:
        self._make_fault = None

    def pause(self) -> None:
        """Let every request wait until `resume`, as a client with retries would."""
        self._resumed = asyncio.Event()

    def resume(self) -> None:
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    def _connection_refused(self) -> Exception:
        return ConnectionRefusedError(f"the API server of {self._cluster} refuses connections")

    def _timeout_error(self) -> Exception:
        return TimeoutError(f"the API server of {self._cluster} does not respond")

    async def forward(self, request: Callable[[], Awaitable[T]]) -> T:
        """Forward the request, unless a fault is injected."""
        await self._wait_until_open()
        response = await request()
        if self._make_fault is not None:  # the request was executed, but its response is lost
            raise self._make_fault()
        return response

    async def _wait_until_open(self) -> None:
        if self._make_fault is not None:
            fault = self._make_fault()
            await asyncio.sleep(self._timeout_seconds)
            raise fault
        while self._resumed is not None:
            await self._resumed.wait()
        if self.delay:
            await asyncio.sleep(self.delay)
            if self._make_fault is not None:
                raise self._make_fault()

    @property
    def takes_status(self) -> bool:
        return self._inner.takes_status

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        return await self.forward(lambda: self._inner.get(resource, namespace, name))

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        return self._with_visible_fields(
            await self.forward(lambda: self._inner.list(resource, namespace, labels=labels, fields=fields))
        )

    async def list_pages(self, resource: Resource, namespace: str = "", *, labels: str = "") -> AsyncIterator[Listing]:
        pages = aiter(self._inner.list_pages(resource, namespace, labels=labels))
        while (page := await self.forward(lambda: anext(pages, None))) is not None:
            yield self._with_visible_fields(page)

    async def list_changes(
        self, resource: Resource, known: Mapping[tuple[str, str], str], *, revision: str, labels: str = ""
    ) -> AsyncIterator[Changes]:
        parts = aiter(self._inner.list_changes(resource, known, revision=revision, labels=labels))
        while (part := await self.forward(lambda: anext(parts, None))) is not None:
            if self._omit_managed_fields:
                part = part._replace(changed=[_without_managed_fields(one) for one in part.changed])
            yield part

    def _with_visible_fields(self, found: Listing) -> Listing:
        if not self._omit_managed_fields:
            return found
        return Listing([_without_managed_fields(one) for one in found.items], found.revision)

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        await self._wait_until_open()
        changes = aiter(self._inner.watch(resource, namespace, revision=revision, labels=labels, fields=fields))
        while True:
            try:
                batch = await self._next_batch(changes)
            except StopAsyncIteration:
                return
            if self.delay:
                await asyncio.sleep(self.delay)
            yield (
                [WatchEvent(change.type, _without_managed_fields(change.object)) for change in batch]
                if self._omit_managed_fields
                else batch
            )

    async def _next_batch(self, changes: AsyncIterator[Sequence[WatchEvent]]) -> Sequence[WatchEvent]:
        """The next batch of events; raises the fault when the connection is cut while waiting."""
        pending = asyncio.ensure_future(anext(changes))
        self._pending_watches.add(pending)
        try:
            return await pending
        except asyncio.CancelledError:
            if self._make_fault is None or not pending.cancelled():
                pending.cancel()
                raise
            raise self._make_fault() from None
        finally:
            self._pending_watches.discard(pending)

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
        response = await self.forward(
            lambda: self._inner.create(
                resource, obj, manager=manager, dry_run=dry_run, typed=typed, with_status=with_status
            )
        )
        return _without_managed_fields(response) if self._omit_managed_fields else response

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
        response = await self.forward(
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
        return _without_managed_fields(response) if self._omit_managed_fields else response

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
        """Nothing to close: the inner client belongs to the member."""


def _without_managed_fields(obj: Raw) -> Raw:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}
