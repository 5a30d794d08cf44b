"""The interface of API server clients: the embedded server in process, or any other over HTTP.

Objects are passed as `Raw` (decoded JSON) and are never changed afterwards. Every refusal is an `errors.ApiError`.
"""

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from trimtab.api.kind import Kind
from trimtab.api.value import Raw
from trimtab.errors import BadRequest

PatchType = Literal["merge", "json", "strategic", "apply"]
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
Propagation = Literal["Background", "Foreground", "Orphan"]


class Resource(NamedTuple):
    """The REST path and names of a kind on an API server."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    verbs: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def id(self) -> str:
        """The same name that `Kind.id` gives: `deployments.apps`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, or of one object or subresource in it.

        Raises `BadRequest` for a name that would lead to another path: manifests of a Work, a plan or a snapshot may have any name.
        """
        for part in (namespace, name):
            if "/" in part or part in {".", ".."}:
                raise BadRequest(f"{part!r} cannot be the name of an object of kind {self.kind}, or of a namespace")
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


def resource_of(kind: Kind) -> Resource:
    return Resource(kind.group, kind.version, kind.plural, kind.name, kind.namespaced)


EVENTS = Resource("", "v1", "events", "Event")


class Listing(NamedTuple):
    """All objects of a resource at one revision."""

    items: Sequence[Raw]
    revision: str


class Changes(NamedTuple):
    """What differs from what a caller knew."""

    changed: Sequence[Raw]
    """New objects, and those with another resourceVersion."""
    gone: Sequence[tuple[str, str]]
    """Namespaces and names of objects that exist no more, or no longer match."""
    revision: str
    """A watch from here on continues after the last part."""


class WatchEvent(Struct, frozen=True):
    """One watch event. A BOOKMARK has only a revision; an ERROR is raised, never returned."""

    type: EventType
    object: Raw


class PlainResponse(NamedTuple):
    """An HTTP response to a path that is not an object (`/readyz`, `/version`)."""

    code: int
    body: bytes


class Client(Protocol):
    """One API server, as one user."""

    @property
    def takes_status(self) -> bool:
        """Whether a typed patch may include the status: a server in this process writes both in one step."""
        ...

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw: ...

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing: ...

    def list_pages(self, resource: Resource, namespace: str = "", *, labels: str = "") -> AsyncIterator[Listing]:
        """The objects of one revision, a page at a time: a large list is never decoded as a whole."""
        ...

    def list_changes(
        self, resource: Resource, known: Mapping[tuple[str, str], str], *, revision: str, labels: str = ""
    ) -> AsyncIterator[Changes]:
        """What has changed since `revision`, in parts; `known` has the resourceVersions of then by namespace and name."""
        ...

    def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        """Events after `revision`, in batches as they arrive, until the server ends the watch."""
        ...

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
        """`typed`: the object was encoded from one of our types, so it has no unknown fields.

        `with_status`: create it with its status, which only a client that `takes_status` can.
        """
        ...

    async def create_together(
        self, resource: Resource, objects: Sequence[Raw], *, manager: str = "trimtab"
    ) -> Sequence[Raw] | None:
        """Create typed objects in one step; None, and nothing is created, if they must be created one by one."""
        ...

    async def record(self, events: Sequence[Raw]) -> None:
        """Create complete core Events, each with its own name; a refused one does not stop the others."""
        ...

    async def replace(
        self, resource: Resource, obj: Raw, *, subresource: str = "", manager: str = "trimtab"
    ) -> Raw: ...

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        *,
        type: PatchType = "merge",  # noqa: A002 - kubectl's name for it
        subresource: str = "",
        manager: str = "trimtab",
        force: bool = False,
        typed: bool = False,
    ) -> Raw: ...

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
    ) -> None: ...

    async def submit(self, resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
        """POST to a subresource: an Eviction, a Binding, a TokenRequest."""
        ...

    async def resources(self) -> Sequence[Resource]:
        """The resources that the server serves, in their preferred version, with verbs."""
        ...

    async def fetch(self, path: str) -> PlainResponse:
        """GET of any path."""
        ...

    async def close(self) -> None: ...


async def changes_in_pages(
    pages: AsyncIterable[Listing], known: Mapping[tuple[str, str], str]
) -> AsyncIterator[Changes]:
    """What differs between a whole list and `known`, a page at a time."""
    missing, revision = set(known), ""
    async for page in pages:
        changed = []
        for raw in page.items:
            metadata = raw["metadata"]
            name = (metadata.get("namespace", ""), metadata["name"])
            missing.discard(name)
            if known.get(name) != metadata["resourceVersion"]:
                changed.append(raw)
        revision = page.revision
        yield Changes(changed, (), revision)
    yield Changes((), sorted(missing), revision)
