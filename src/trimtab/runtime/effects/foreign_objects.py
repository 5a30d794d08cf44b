"""Objects in a namespace of a member that nobody would expect to be deleted with it."""

from trimtab.api.value import Raw
from trimtab.client.client import Client, Resource
from trimtab.errors import ApiError, NotFound

MAX_NAMED = 5
RECORDS = ("Event", "Endpoints", "PodMetrics")
"""Kinds that say something about other objects and have no value without them."""
DEFAULTS = (("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt"))
"""Kubernetes creates these in every namespace."""
ACCOUNT_SECRET_TYPE = "kubernetes.io/service-account-token"  # noqa: S105


async def foreign_objects(client: Client, namespace: str) -> tuple[str, ...]:
    """The first few; a kind that cannot be listed counts as one, because it may have objects."""
    found: list[str] = []
    for resource in await client.resources():
        if not resource.namespaced or "list" not in resource.verbs or resource.kind in RECORDS:
            continue
        found += await _foreign_objects_of(client, resource, namespace)
        if len(found) >= MAX_NAMED:
            break
    return tuple(found[:MAX_NAMED])


async def _foreign_objects_of(client: Client, resource: Resource, namespace: str) -> list[str]:
    try:
        listed = (await client.list(resource, namespace)).items
    except NotFound:
        return []
    except ApiError as fault:
        return [f"{resource.plural} ({fault})"]
    return [f"{resource.kind}/{raw['metadata']['name']}" for raw in listed if is_foreign(resource.kind, raw)]


def is_foreign(kind: str, raw: Raw) -> bool:
    """Objects with an owner go with their owner, and those of Trimtab are deleted before their namespace is."""
    metadata = raw["metadata"]
    return (
        not metadata.get("ownerReferences")
        and not metadata.get("deletionTimestamp")
        and (kind, metadata["name"]) not in DEFAULTS
        and raw.get("type") != ACCOUNT_SECRET_TYPE
    )
