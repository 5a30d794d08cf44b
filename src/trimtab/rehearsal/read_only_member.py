"""A client of a member that reads, and records writes instead of sending them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from trimtab.api.patch.merge_patch import apply_merge_patch
from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.client.forwarding import ForwardingClient
from trimtab.errors import AlreadyExists, NotFound, Unavailable

CREATE, UPDATE, DELETE = "create", "update", "delete"
REVIEWS = ("subjectaccessreviews", "selfsubjectaccessreviews")
"""What is only asked, although it is sent with POST."""
SERVER_FIELDS = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink")


class MemberWrite(NamedTuple):
    """A write that was not sent."""

    cluster: str
    verb: str
    kind: str
    namespace: str
    name: str
    fields: tuple[str, ...] = ()
    """The fields that an update would change."""

    @property
    def object_name(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class ReadOnlyMember(ForwardingClient):
    """Passes reads to a client; keeps what was written in memory, so that it is written once."""

    def __init__(self, client: Client, cluster: str, writes: dict[MemberWrite, None]) -> None:
        """`writes` collects the writes, each once, in the order in which they would be sent."""
        super().__init__(client)
        self._cluster = cluster
        self._writes = writes
        self._changed: dict[tuple[str, str, str], Raw | None] = {}

    @property
    def takes_status(self) -> bool:
        return False

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        key = (resource.id, namespace, name)
        if key not in self._changed:
            return await self._inner.get(resource, namespace, name)
        if (found := self._changed[key]) is None:
            raise NotFound(f"{resource.plural} {name!r} not found", kind=resource.plural, name=name)
        return found

    async def create(self, resource: Resource, obj: Raw, **_: Any) -> Raw:
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if await self._find(resource, namespace, name) is not None:
            raise AlreadyExists(f"{resource.plural} {name!r} already exists", kind=resource.plural, name=name)
        return self._keep(CREATE, resource, namespace, name, None, obj)

    async def create_together(self, resource: Resource, objects: Sequence[Raw], **_: Any) -> Sequence[Raw] | None:
        return None

    async def record(self, events: Sequence[Raw]) -> None:
        """Events are not written."""

    async def replace(self, resource: Resource, obj: Raw, **_: Any) -> Raw:
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        return self._keep(UPDATE, resource, namespace, name, await self.get(resource, namespace, name), obj)

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Any, **options: Any) -> Raw:
        before = await self._find(resource, namespace, name)
        if before is None and options.get("type") != "apply":
            raise NotFound(f"{resource.plural} {name!r} not found", kind=resource.plural, name=name)
        after = apply_merge_patch(before or {}, patch) if isinstance(patch, dict) else before or {}
        return self._keep(UPDATE if before is not None else CREATE, resource, namespace, name, before, after)

    async def delete(self, resource: Resource, namespace: str, name: str, **_: Any) -> None:
        await self.get(resource, namespace, name)
        self._writes[MemberWrite(self._cluster, DELETE, resource.kind, namespace, name)] = None
        self._changed[resource.id, namespace, name] = None

    async def submit(self, resource: Resource, namespace: str, name: str, subresource: str, obj: Raw) -> Raw:
        if resource.plural not in REVIEWS:
            raise Unavailable(f"{subresource or resource.plural} is not sent: nothing is written in the cluster")
        return await self._inner.submit(resource, namespace, name, subresource, obj)

    async def _find(self, resource: Resource, namespace: str, name: str) -> Raw | None:
        try:
            return await self.get(resource, namespace, name)
        except NotFound:
            return None

    def _keep(self, verb: str, resource: Resource, namespace: str, name: str, before: Raw | None, after: Raw) -> Raw:
        fields = tuple(changed_fields(without_server_fields(before), without_server_fields(after))) if before else ()
        if before is None or fields:
            self._writes[MemberWrite(self._cluster, verb, resource.kind, namespace, name, fields)] = None
        known = before["metadata"] if before is not None else {"uid": f"{self._cluster}/{name}", "resourceVersion": "1"}
        kept = {**after, "metadata": {**known, **after["metadata"], "resourceVersion": known["resourceVersion"]}}
        self._changed[resource.id, namespace, name] = kept
        return kept


def without_server_fields(raw: Raw) -> Raw:
    """The object without its status and what only its API server writes."""
    metadata = {key: value for key, value in raw["metadata"].items() if key not in SERVER_FIELDS}
    return {**{key: value for key, value in raw.items() if key != "status"}, "metadata": metadata}


def changed_fields(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """The paths of fields that differ. A field that only `before` has may be a default of the server; it counts as well."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            yield from changed_fields(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    elif before != after:
        yield path
