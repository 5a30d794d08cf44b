"""A client without `managedFields`: whatever it reads or writes, they are not in its answers."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from trimtab.client.client import Changes, Client, Listing, Resource, WatchEvent
from trimtab.clock import run_virtually
from trimtab.simulate.unmanaged_reads import UnmanagedReads

PODS = Resource("", "v1", "pods", "Pod")
POD = {"metadata": {"name": "web", "managedFields": [{"manager": "kubelet"}]}}


class PodClient:
    """Answers every request with one pod."""

    async def list(self, *args: Any, **options: Any) -> Listing:
        return Listing([POD], "1")

    async def list_pages(self, *args: Any, **options: Any) -> AsyncIterator[Listing]:
        yield Listing([POD], "1")

    async def list_changes(self, *args: Any, **options: Any) -> AsyncIterator[Changes]:
        yield Changes([POD], [], "1")

    async def watch(self, *args: Any, **options: Any) -> AsyncIterator[Sequence[WatchEvent]]:
        yield [WatchEvent("MODIFIED", POD)]

    async def create(self, *args: Any, **options: Any) -> Any:
        return POD

    async def patch(self, *args: Any, **options: Any) -> Any:
        return POD


def test_no_answer_has_managed_fields() -> None:
    async def scenario() -> None:
        client = UnmanagedReads(cast("Client", PodClient()))
        found = [*(await client.list(PODS)).items]
        found += [one async for page in client.list_pages(PODS) for one in page.items]
        found += [one async for part in client.list_changes(PODS, {}, revision="1") for one in part.changed]
        found += [event.object async for batch in client.watch(PODS, revision="1") for event in batch]
        found += [await client.create(PODS, POD), await client.patch(PODS, "", "web", {})]
        assert found == [{"metadata": {"name": "web"}}] * 6
        assert "managedFields" in POD["metadata"]

    run_virtually(scenario())
