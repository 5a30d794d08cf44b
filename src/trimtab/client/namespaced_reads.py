"""A client that reads some kinds in one namespace only, for accounts that may not read them everywhere."""

from collections.abc import AsyncIterator, Mapping, Sequence

from trimtab.client.client import Changes, Client, Listing, Resource, WatchEvent, changes_in_pages
from trimtab.client.forwarding import ForwardingClient


class NamespacedReads(ForwardingClient):
    """The client of an account whose rights for some kinds end at a namespace."""

    def __init__(self, client: Client, namespaces: Mapping[str, str]) -> None:
        """`namespaces`: by the id of a kind, the only namespace that is listed and watched."""
        super().__init__(client)
        self._namespaces = namespaces

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        return await super().list(resource, self._namespace_of(resource, namespace), labels=labels, fields=fields)

    def list_pages(self, resource: Resource, namespace: str = "", *, labels: str = "") -> AsyncIterator[Listing]:
        return super().list_pages(resource, self._namespace_of(resource, namespace), labels=labels)

    def list_changes(
        self, resource: Resource, known: Mapping[tuple[str, str], str], *, revision: str, labels: str = ""
    ) -> AsyncIterator[Changes]:
        if resource.id in self._namespaces:
            return changes_in_pages(self.list_pages(resource, labels=labels), known)
        return super().list_changes(resource, known, revision=revision, labels=labels)

    def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        place = self._namespace_of(resource, namespace)
        return super().watch(resource, place, revision=revision, labels=labels, fields=fields)

    def _namespace_of(self, resource: Resource, namespace: str) -> str:
        return namespace or self._namespaces.get(resource.id, "")
