"""A client of a member cluster that can inject connection failures, timeouts and delays."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from trimtab.client.client import Changes, Client, Listing, Resource, WatchEvent
from trimtab.client.forwarding import ForwardingClient

T = TypeVar("T")


class FaultyMemberClient(ForwardingClient):
    """A Client that forwards to another one and injects faults."""

    def __init__(self, inner: Client, cluster: str) -> None:
        super().__init__(inner)
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

    async def list_pages(self, resource: Resource, namespace: str = "", *, labels: str = "") -> AsyncIterator[Listing]:
        pages = aiter(super().list_pages(resource, namespace, labels=labels))
        while (page := await self.forward(lambda: anext(pages, None))) is not None:
            yield page

    async def list_changes(
        self, resource: Resource, known: Mapping[tuple[str, str], str], *, revision: str, labels: str = ""
    ) -> AsyncIterator[Changes]:
        parts = aiter(super().list_changes(resource, known, revision=revision, labels=labels))
        while (part := await self.forward(lambda: anext(parts, None))) is not None:
            yield part

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        await self._wait_until_open()
        changes = aiter(super().watch(resource, namespace, revision=revision, labels=labels, fields=fields))
        while True:
            try:
                batch = await self._next_batch(changes)
            except StopAsyncIteration:
                return
            if self.delay:
                await asyncio.sleep(self.delay)
            yield batch

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

    async def close(self) -> None:
        """Nothing to close: the inner client belongs to the member."""
