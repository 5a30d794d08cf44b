"""Clusters by name, with an error that lists the existing ones."""

from trimtab.api.kind import kind_of
from trimtab.api.kinds.cluster import Cluster
from trimtab.api.value import Raw
from trimtab.client.client import Client, resource_of
from trimtab.dryrun.change import list_some
from trimtab.errors import InputError, NotFound


async def get_cluster(client: Client, name: str) -> Raw:
    """The cluster; the error for a wrong name lists the existing clusters."""
    resource = resource_of(kind_of(Cluster))
    try:
        return await client.get(resource, "", name)
    except NotFound as fault:
        known = sorted(raw["metadata"]["name"] for raw in (await client.list(resource)).items)
        raise InputError(f"there is no cluster {name!r}; clusters: {list_some(known)}") from fault
