"""Discovery: which resources an API server serves."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

from trimtab.api.value import Raw
from trimtab.client.client import Resource
from trimtab.client.responses import decode_object
from trimtab.client.transport import HTTPTransport
from trimtab.errors import ApiError

AGGREGATED_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


class DiscoveryClient:
    """Reads the discovery documents of a server."""

    def __init__(self, transport: HTTPTransport) -> None:
        self._transport = transport
        self._last: tuple[tuple[bytes, ...], Sequence[Resource]] = ((), ())

    async def resources(self) -> Sequence[Resource]:
        """Called every few seconds, so a response equal to the last one is not decoded again."""
        responses = (
            await self._transport.request("GET", "/api", accept=AGGREGATED_DISCOVERY),
            await self._transport.request("GET", "/apis", accept=AGGREGATED_DISCOVERY),
        )
        if responses == self._last[0]:
            return self._last[1]
        core, others = map(decode_object, responses)
        with _as_malformed_discovery():
            if core.get("kind") == others.get("kind") == "APIGroupDiscoveryList":
                groups = [*(core.get("items") or []), *(others.get("items") or [])]
                self._last = responses, list(chain.from_iterable(map(_resources_in_group, groups)))
                return self._last[1]
            return await self._discover_each_version(core["versions"], others["groups"])

    async def _discover_each_version(self, versions: Sequence[str], groups: Sequence[Raw]) -> Sequence[Resource]:
        """Discovery for servers without aggregated discovery."""
        found: dict[tuple[str, str], Resource] = {}
        for version in versions:
            _add_resources(found, "", version, decode_object(await self._transport.request("GET", f"/api/{version}")))
        for group in groups:
            preferred = group["preferredVersion"]["version"]
            versions = sorted((v["version"] for v in group["versions"]), key=lambda v: v != preferred)
            for version in versions:
                try:
                    listing = decode_object(await self._transport.request("GET", f"/apis/{group['name']}/{version}"))
                except ApiError:
                    continue  # an aggregated API may be unavailable; the others still count
                _add_resources(found, group["name"], version, listing)
        return list(found.values())


def _add_resources(found: dict[tuple[str, str], Resource], group: str, version: str, listing: Raw) -> None:
    for entry in listing.get("resources") or []:
        if "/" not in entry["name"]:
            found.setdefault(
                (group, entry["name"]),
                Resource(group, version, entry["name"], entry["kind"], entry["namespaced"], tuple(entry["verbs"])),
            )


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
