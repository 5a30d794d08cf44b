"""Events of this process are written in one transaction, as far as they are accepted."""

import asyncio
from typing import Any

from trimtab.api.value import Raw
from trimtab.client.client import EVENTS
from trimtab.runtime.declarations import load_declarations
from trimtab.server.apiserver import ApiServer, ApiServerSettings
from trimtab.server.local import LocalClient
from trimtab.store.store import Store


def event(name: str, namespace: str, **fields: Any) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"namespace": namespace, "name": "a"},
        "reason": "R",
        "eventTime": None,
        **fields,
    }


def record(*events: Raw) -> tuple[list[Raw], list[Raw]]:
    """The Events that are stored, and those that a watch reported."""

    async def scenario() -> tuple[list[Raw], list[Raw]]:
        load_declarations()
        server = ApiServer(Store(), ApiServerSettings())
        await server.start()
        client = LocalClient(server)
        start = await client.list(EVENTS)
        await client.record(events)
        stored = (await client.list(EVENTS)).items
        changes = client.watch(EVENTS, revision=start.revision)
        watched = [change.object async for batch in first(changes) for change in batch] if stored else []
        await server.stop()
        return stored, watched

    async def first(batches: Any) -> Any:
        async for batch in batches:
            yield batch
            return

    return asyncio.run(scenario())


def test_events_of_a_missing_namespace_are_dropped_and_others_written_together() -> None:
    stored, watched = record(
        event("a", "default"),
        event("b", "missing"),
        event("c", "default"),
        event("d", "missing"),
        event("e", "kube-system"),
    )
    assert [one["metadata"]["name"] for one in stored] == ["a", "c", "e"]
    assert all("managedFields" not in one["metadata"] for one in stored)
    assert watched == stored


def test_event_about_an_object_of_another_namespace_is_dropped() -> None:
    stored, _ = record(event("a", "default", involvedObject={"namespace": "kube-system", "name": "b"}))
    assert stored == []
