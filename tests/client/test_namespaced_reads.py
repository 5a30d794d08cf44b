"""A client that reads some kinds in one namespace only."""

import asyncio
from typing import Any

from trimtab.client.client import Client, Listing, Resource
from trimtab.client.namespaced_reads import NamespacedReads

WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")
PODS = Resource("", "v1", "pods", "Pod")


class RecordingClient:
    """Records the namespaces that are read."""

    takes_status = False

    def __init__(self) -> None:
        self.read: list[tuple[str, str]] = []

    async def list(self, resource: Resource, namespace: str = "", **more: Any) -> Listing:
        self.read.append((resource.id, namespace))
        return Listing([], "1")

    def watch(self, resource: Resource, namespace: str = "", **more: Any) -> None:
        self.read.append((resource.id, namespace))


def test_restricted_kinds_are_read_in_their_namespace_and_others_everywhere() -> None:
    inner = RecordingClient()
    client: Any = NamespacedReads(inner, {"works.work.karmada.io": "karmada-es-m1"})  # type: ignore[arg-type]
    assert isinstance(client, NamespacedReads)

    async def scenario(reader: Client) -> None:
        await reader.list(WORKS)
        await reader.list(PODS)
        await reader.list(WORKS, "given")
        reader.watch(WORKS, revision="1")
        assert reader.takes_status is False

    asyncio.run(scenario(client))
    restricted = ("works.work.karmada.io", "karmada-es-m1")
    assert inner.read == [restricted, ("pods", ""), ("works.work.karmada.io", "given"), restricted]
