"""Access to the objects of the control plane and of the members by the names that stories use."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.errors import InputError
from trimtab.stories.expectations import HOST, ObjectPattern


class StoryObjects:
    """Lists, locates and applies objects in the host and in the members."""

    def __init__(self, client_for: Callable[[str], Client], members: Callable[[], Iterable[str]]) -> None:
        self.client_for = client_for
        self._members = members
        self._resources: dict[str, dict[str, Resource]] = {}

    async def find(self, pattern: ObjectPattern) -> list[Raw]:
        """The objects that match the reference now."""
        found: list[Raw] = []
        for where in self._clusters(pattern.cluster):
            resource = await self.resource(where, pattern.kind)
            exact = resource.namespaced and pattern.namespace is not None and "*" not in pattern.namespace
            namespace = pattern.namespace or "" if exact else "default" if pattern.namespace is None else ""
            listing = await self.client_for(where).list(resource, namespace if resource.namespaced else "")
            found += [obj for obj in listing.items if pattern.matches(obj)]
        return found

    def _clusters(self, pattern: str) -> Iterable[str]:
        if pattern == HOST:
            return [HOST]
        return [name for name in self._members() if fnmatchcase(name, pattern)]

    async def resource(self, where: str, kind: str) -> Resource:
        """The resource that serves a kind; discovery is repeated when the kind is not known yet."""
        known = self._resources.get(where, {})
        if kind not in known:
            known = self._resources[where] = {}
            for resource in await self.client_for(where).resources():
                known.setdefault(resource.kind, resource)
        if kind not in known:
            raise InputError(f"there is no kind {kind} in {where or 'the control plane'}")
        return known[kind]

    async def locate(self, where: str, text: str) -> tuple[Resource, str, str]:
        """Resource, namespace and name of `Kind/namespace/name` or `Kind/name`."""
        kind, *names = text.split("/")
        if not 1 <= len(names) <= 2:
            raise InputError(f"{text!r} does not name an object; write Kind/namespace/name or Kind/name")
        resource = await self.resource(where, kind)
        namespace = names[0] if len(names) == 2 else "default"
        return resource, namespace if resource.namespaced else "", names[-1]

    async def apply(self, where: str, obj: Raw) -> None:
        """Server-side apply; a namespaced object without a namespace goes to `default`."""
        resource = await self.resource(where, obj["kind"])
        if resource.api_version != obj["apiVersion"]:
            group, _, version = obj["apiVersion"].rpartition("/")
            resource = resource._replace(group=group, version=version)
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "default") if resource.namespaced else ""
        body = {**obj, "metadata": {**metadata, "namespace": namespace}} if namespace else obj
        await self.client_for(where).patch(
            resource, namespace, metadata["name"], body, type="apply", manager="story", force=True
        )
