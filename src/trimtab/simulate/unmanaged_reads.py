"""A client of a member cluster without `managedFields`, which are half of an object."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from trimtab.api.value import Raw
from trimtab.client.client import Changes, Listing, Resource, WatchEvent
from trimtab.client.forwarding import ForwardingClient


class UnmanagedReads(ForwardingClient):
    """For the components of a cluster, which never read `managedFields`."""

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        return _omit_in(await super().list(resource, namespace, labels=labels, fields=fields))

    async def list_pages(self, resource: Resource, namespace: str = "", *, labels: str = "") -> AsyncIterator[Listing]:
        async for page in super().list_pages(resource, namespace, labels=labels):
            yield _omit_in(page)

    async def list_changes(
        self, resource: Resource, known: Mapping[tuple[str, str], str], *, revision: str, labels: str = ""
    ) -> AsyncIterator[Changes]:
        async for part in super().list_changes(resource, known, revision=revision, labels=labels):
            yield part._replace(changed=[without_managed_fields(one) for one in part.changed])

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        async for batch in super().watch(resource, namespace, revision=revision, labels=labels, fields=fields):
            yield [WatchEvent(change.type, without_managed_fields(change.object)) for change in batch]

    async def create(self, resource: Resource, obj: Raw, **options: Any) -> Raw:
        return without_managed_fields(await super().create(resource, obj, **options))

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Any, **options: Any) -> Raw:
        return without_managed_fields(await super().patch(resource, namespace, name, patch, **options))


def _omit_in(found: Listing) -> Listing:
    return Listing([without_managed_fields(one) for one in found.items], found.revision)


def without_managed_fields(obj: Raw) -> Raw:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}
