"""Rewrites stored objects in the storage version of their kind, so that an old version can be removed from its definition.

An API server stores an object in the version that was the storage version when it was last written, and lists every version
that was ever one in `status.storedVersions` of the definition. A version in that list cannot be removed. A write without a
change makes the API server encode the object anew; when every object was written, the list is reduced to the current version.
"""

from typing import NamedTuple

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.errors import Conflict, NotFound

DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
MANAGER = "trimtab-migration"


class Migration(NamedTuple):
    """What was done for one kind."""

    definition: str
    old_versions: tuple[str, ...]
    objects: int


def old_versions(definition: Raw) -> tuple[str, ...]:
    """Stored versions other than the storage version."""
    stored = (definition.get("status") or {}).get("storedVersions") or ()
    return tuple(version for version in stored if version != storage_version(definition))


def storage_version(definition: Raw) -> str:
    name: str = next(version["name"] for version in definition["spec"]["versions"] if version["storage"])
    return name


async def migrate(client: Client, definition: Raw) -> Migration:
    """Write every object of the kind, and then trim its stored versions. It may be interrupted and repeated."""
    spec, name = definition["spec"], definition["metadata"]["name"]
    resource = Resource(
        spec["group"],
        storage_version(definition),
        spec["names"]["plural"],
        spec["names"]["kind"],
        spec["scope"] == "Namespaced",
    )
    found = old_versions(definition)
    count = 0
    for raw in (await client.list(resource)).items:
        count += await _rewrite(client, resource, raw)
    # The resourceVersion: a definition that changed meanwhile may have another storage version.
    metadata = {"resourceVersion": definition["metadata"]["resourceVersion"]}
    trimmed = {"metadata": metadata, "status": {"storedVersions": [resource.version]}}
    await client.patch(DEFINITIONS, "", name, trimmed, subresource="status", manager=MANAGER)
    return Migration(name, found, count)


async def _rewrite(client: Client, resource: Resource, raw: Raw) -> int:
    """Write one object unchanged; 0 if it is gone."""
    try:
        await client.replace(resource, raw, manager=MANAGER)
    except NotFound:
        return 0
    except Conflict:
        return 1  # somebody else has written it since: in the storage version
    return 1
