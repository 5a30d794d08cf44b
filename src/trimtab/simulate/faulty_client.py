"""A client of a member cluster that can inject connection failures, timeouts and delays."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from trimtab.api.value import Raw
from trimtab.client.client import Client, Listing, PatchType, PlainResponse, Propagation, Resource, WatchEvent

T = TypeVar("T")


class Line:
    """A Client that forwards to another one and injects faults.

    With `omit_managed_fields` it removes `managedFields`: the components of a cluster never read them, and they are
    half of an object.
    """

    def __init__(self, inner: Client, cluster: str, *, lean: bool = False) -> None:
        self._lean = lean
        self._inner = inner
        self._cluster = cluster
        self._fault: Callable[[], Exception] | None = None
        self._silence = 0.0
        self._open: asyncio.Event | None = None
        self.delay = 0.0
        """Seconds added to every request."""
        self._watches: set[asyncio.Future[Any]] = set()

    @property
    def cut(self) -> bool:
        return self._fault is not None

    def break_off(self, *, silent_seconds: float = 0.0) -> None:
        """Let every request fail: refused at once, or timed out after so many seconds."""
        self._silence = silent_seconds
        self._fault = self._timed_out if silent_seconds else self._refused
        for pending in self._watches:
            pending.cancel()

    def mend(self) -> None:
        self._fault = None

    def hold(self) -> None:
        """Let every request wait until `resume`, as a client with retries would."""
        self._open = asyncio.Event()

    def let_go(self) -> None:
        if self._open is not None:
            self._open.set()
            self._open = None

    def _refused(self) -> Exception:
        return ConnectionRefusedError(f"the API server of {self._cluster} refuses connections")

    def _timed_out(self) -> Exception:
        return TimeoutError(f"the API server of {self._cluster} does not answer")

    async def through(self, request: Callable[[], Awaitable[T]]) -> T:
        """Forward the request, unless a fault is injected."""
        await self._pass()
        response = await request()
        if self._fault is not None:  # the request was executed, but its response is lost
            raise self._fault()
        return response

    async def _pass(self) -> None:
        if self._fault is not None:
            fault = self._fault()
            await asyncio.sleep(self._silence)
            raise fault
        while self._open is not None:
            await self._open.wait()
        if self.delay:
            await asyncio.sleep(self.delay)
            if self._fault is not None:
                raise self._fault()

    @property
    def takes_status(self) -> bool:
        return self._inner.takes_status

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        return await self.through(lambda: self._inner.get(resource, namespace, name))

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        found = await self.through(lambda: self._inner.list(resource, namespace, labels=labels, fields=fields))
        return Listing([_lean(one) for one in found.items], found.revision) if self._lean else found

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        await self._pass()
        changes = aiter(self._inner.watch(resource, namespace, revision=revision, labels=labels, fields=fields))
        while True:
            try:
                batch = await self._next(changes)
            except StopAsyncIteration:
                return
            if self.delay:
                await asyncio.sleep(self.delay)
            yield [WatchEvent(change.type, _lean(change.object)) for change in batch] if self._lean else batch

    async def _next(self, changes: AsyncIterator[Sequence[WatchEvent]]) -> Sequence[WatchEvent]:
        """The next batch of events; raises the fault when the connection is cut while waiting."""
        pending = asyncio.ensure_future(anext(changes))
        self._watches.add(pending)
        try:
            return await pending
        except asyncio.CancelledError:
            if self._fault is None or not pending.cancelled():
                pending.cancel()
                raise
            raise self._fault() from None
        finally:
            self._watches.discard(pending)

    async def create(
        self, resource: Resource, obj: Raw, *, manager: str = "trimtab", dry_run: bool = False, typed: bool = False
    ) -> Raw:
        response = await self.through(
            lambda: self._inner.create(resource, obj, manager=manager, dry_run=dry_run, typed=typed)
        )
        return _lean(response) if self._lean else response

    async def create_together(
        self, resource: Resource, objects: Sequence[Raw], *, manager: str = "trimtab"
    ) -> Sequence[Raw] | None:
        return await self.through(lambda: self._inner.create_together(resource, objects, manager=manager))

    async def record(self, events: Sequence[Raw]) -> None:
        await self.through(lambda: self._inner.record(events))

    async def replace(self, resource: Resource, obj: Raw, *, subresource: str = "", manager: str = "trimtab") -> Raw:
        return await self.through(lambda: self._inner.replace(resource, obj, subresource=subresource, manager=manager))

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
        response = await self.through(
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
        return _lean(response) if self._lean else response

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
        await self.through(
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
        return await self.through(lambda: self._inner.submit(resource, namespace, name, subresource, obj))

    async def resources(self) -> Sequence[Resource]:
        return await self.through(self._inner.resources)

    async def fetch(self, path: str) -> PlainResponse:
        return await self.through(lambda: self._inner.fetch(path))

    async def close(self) -> None:
        """Nothing to close: the inner client belongs to the member."""


def _lean(obj: Raw) -> Raw:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}
