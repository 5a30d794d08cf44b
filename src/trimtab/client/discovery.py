"""Discovery: which resources an API server serves."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.client.responses import decode_object
from trimtab.client.transport import HTTPTransport
from trimtab.errors import ApiError

AGGREGATED_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


MAX_SHARED_DOCUMENTS = 64
"""Different documents that are kept decoded, in the whole process."""


class DiscoveryClient:
    """Reads the discovery documents of a server."""

    def __init__(self, transport: HTTPTransport) -> None:
        self._transport = transport
        self._documents: dict[str, _Document] = {}
        """By path, as the server sent them last."""

    async def resources(self) -> Sequence[Resource]:
        """Called every few seconds, so unchanged documents are neither sent nor decoded again."""
        core, others = await self._read("/api"), await self._read("/apis")
        with _as_malformed_discovery():
            aggregated = _aggregated_resources(core, others)
            if aggregated is not None:
                return aggregated
            return await self._discover_each_version(decode_object(core)["versions"], decode_object(others)["groups"])

    async def _read(self, path: str) -> bytes:
        known = self._documents.get(path, _Document(b"", ""))
        reply = await self._transport.fetch_if_changed(path, AGGREGATED_DISCOVERY, known.etag)
        if reply is not None:
            known = self._documents[path] = _Document(_shared_document(reply.body), reply.etag)
        return known.body

    async def _discover_each_version(self, versions: Sequence[str], groups: Sequence[Raw]) -> Sequence[Resource]:
        """Discovery for servers without aggregated discovery."""
        found: dict[str, Resource] = {}
        for version in versions:
            listing = decode_object(await self._transport.request("GET", f"/api/{version}"))
            add_preferred(found, resources_of_version(version, listing))
        for group in groups:
            preferred = group["preferredVersion"]["version"]
            versions = sorted((v["version"] for v in group["versions"]), key=lambda v: v != preferred)
            for version in versions:
                try:
                    listing = decode_object(await self._transport.request("GET", f"/apis/{group['name']}/{version}"))
                except ApiError:
                    continue  # an aggregated API may be unavailable; the others still count
                add_preferred(found, resources_of_version(f"{group['name']}/{version}", listing))
        return list(found.values())


class _Document(NamedTuple):
    body: bytes
    etag: str


@lru_cache(maxsize=MAX_SHARED_DOCUMENTS)
def _shared_document(body: bytes) -> bytes:
    """Equal documents as one object: most members of a fleet serve the same resources."""
    return body


@lru_cache(maxsize=MAX_SHARED_DOCUMENTS)
def _aggregated_resources(core: bytes, others: bytes) -> tuple[Resource, ...] | None:
    """The resources in aggregated documents, the same tuple for the same documents; None if they are not aggregated."""
    documents = decode_object(core), decode_object(others)
    if any(document.get("kind") != "APIGroupDiscoveryList" for document in documents):
        return None
    groups = chain.from_iterable(document.get("items") or () for document in documents)
    return tuple(chain.from_iterable(map(_resources_in_group, groups)))


def add_preferred(found: dict[str, Resource], resources: Iterable[Resource]) -> None:
    """Add those that an earlier, that is a preferred, version does not have."""
    for resource in resources:
        found.setdefault(resource.id, resource)


def resources_of_version(api_version: str, listing: Raw) -> Iterator[Resource]:
    """The resources in an APIResourceList, without subresources."""
    group, _, version = api_version.rpartition("/")
    with _as_malformed_discovery():
        for entry in listing.get("resources") or []:
            if "/" not in entry["name"]:
                yield Resource(group, version, entry["name"], entry["kind"], entry["namespaced"], tuple(entry["verbs"]))


@contextmanager
def _as_malformed_discovery() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ApiError(f"the server's discovery documents are not valid: {error!r}") from error


def _resources_in_group(group: Raw) -> Iterator[Resource]:
    """The resources of a group in aggregated discovery, each in the first, that is the preferred, version that has it."""
    name, seen = group["metadata"].get("name", ""), set()
    for version in group.get("versions") or []:
        if version.get("freshness") == "Stale":
            continue  # an aggregated API may be unavailable; the others still count
        for entry in version.get("resources") or []:
            kind = (entry.get("responseKind") or {}).get("kind", "")
            if kind and entry["resource"] not in seen:
                seen.add(entry["resource"])
                namespaced, verbs = entry.get("scope") == "Namespaced", tuple(entry.get("verbs") or ())
                yield Resource(name, version["version"], entry["resource"], kind, namespaced, verbs)
