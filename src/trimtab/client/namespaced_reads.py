"""A client that reads some kinds in one namespace only, for accounts that may not read them everywhere."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from trimtab.client.client import Changes, Client, Listing, Resource, WatchEvent, changes_in_pages


class NamespacedReads:
    """The client of an account whose rights for some kinds end at a namespace."""

    def __init__(self, client: Client, namespaces: Mapping[str, str]) -> None:
        """`namespaces`: by the id of a kind, the only namespace that is listed and watched."""
        self._client = client
        self._namespaces = namespaces

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        place = namespace or self._namespaces.get(resource.id, "")
        return await self._client.list(resource, place, labels=labels, fields=fields)

    def list_pages(self, resource: Resource, namespace: str = "", *, labels: str = "") -> AsyncIterator[Listing]:
        place = namespace or self._namespaces.get(resource.id, "")
        return self._client.list_pages(resource, place, labels=labels)

    def list_changes(
        self, resource: Resource, known: Mapping[tuple[str, str], str], *, revision: str, labels: str = ""
    ) -> AsyncIterator[Changes]:
        if resource.id in self._namespaces:
            return changes_in_pages(self.list_pages(resource, labels=labels), known)
        return self._client.list_changes(resource, known, revision=revision, labels=labels)

    def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        place = namespace or self._namespaces.get(resource.id, "")
        return self._client.watch(resource, place, revision=revision, labels=labels, fields=fields)
