"""Creates the objects that a cluster has from its start."""

from collections.abc import Iterable

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.errors import AlreadyExists
from trimtab.server.resources import ResourceCatalogue

ADDRESS_FIELDS = ("subsets", "endpoints", "ports")
"""What changes with the address of the API server."""


async def create_start_objects(
    client: Client, catalogue: ResourceCatalogue, objects: Iterable[Raw], manager: str
) -> None:
    """Create what is missing; objects of kinds that are not served are left out, and addresses are updated."""
    for wanted in objects:
        group, _, version = wanted["apiVersion"].rpartition("/")
        served = catalogue.find_kind(wanted["apiVersion"], wanted["kind"])
        if served is None:
            continue
        resource = Resource(group, version, served.resource, wanted["kind"], served.kind.namespaced)
        try:
            await client.create(resource, wanted, manager=manager)
        except AlreadyExists:
            change = {key: value for key, value in wanted.items() if key in ADDRESS_FIELDS}
            if change:
                metadata = wanted["metadata"]
                place = metadata.get("namespace", "")
                await client.patch(resource, place, metadata["name"], change, manager=manager)
