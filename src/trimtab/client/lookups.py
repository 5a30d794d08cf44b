"""Lookups shared by commands: typed lists, resources by kubectl names, and workload references."""

import difflib
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from trimtab.api.kind import kind_of
from trimtab.api.value import Object
from trimtab.client.client import Client, Resource, resource_of
from trimtab.errors import InputError, NotFound

T = TypeVar("T", bound=Object)
SHORT_NAMES = {
    "deploy": "Deployment",
    "sts": "StatefulSet",
    "ds": "DaemonSet",
    "rs": "ReplicaSet",
    "cj": "CronJob",
    "cm": "ConfigMap",
    "svc": "Service",
    "pvc": "PersistentVolumeClaim",
    "sa": "ServiceAccount",
    "ing": "Ingress",
    "rb": "ResourceBinding",
    "crb": "ClusterResourceBinding",
}


async def list_typed(
    client: Client, type_: type[T], namespace: str = "", *, fields: str = "", if_served: bool = False
) -> list[T]:
    """All objects of a type, sorted by namespace and name; `if_served`: empty if the server does not serve the kind."""
    kind = kind_of(type_)
    try:
        listing = await client.list(resource_of(kind), namespace, fields=fields)
    except NotFound:
        if if_served:
            return []
        raise
    found = [cast("T", kind.decode(raw)) for raw in listing.items]
    return sorted(found, key=lambda obj: (obj.namespace, obj.name))


def find_resource(word: str, served: Sequence[Resource]) -> Resource:
    """The resource that users mean by `deploy`, `deployment`, `deployments` or `Deployment`."""
    wanted = SHORT_NAMES.get(word.lower(), word).lower()
    for resource in served:
        if wanted in (resource.kind.lower(), resource.plural.lower(), resource.id):
            return resource
    names = {*SHORT_NAMES, *(resource.kind.lower() for resource in served)}
    near = difflib.get_close_matches(word.lower(), sorted(names), 1)
    hint = f"did you mean {near[0]}?" if near else "use for example deploy/web or sts/db"
    raise InputError(f"the server serves no kind called {word!r}; {hint}")


async def workload_reference(client: Client, text: str, namespace: str) -> dict[str, Any]:
    """`deploy/web` as the object reference of a WorkloadRebalancer."""
    return reference_to(text, namespace, await client.resources())


def reference_to(text: str, namespace: str, served: Sequence[Resource]) -> dict[str, Any]:
    word, slash, name = text.partition("/")
    if not word or not slash or not name or "/" in name:
        raise InputError(f"{text!r} does not name a workload; use for example deploy/web")
    resource = find_resource(word, served)
    ref = {"apiVersion": resource.api_version, "kind": resource.kind, "name": name}
    return {**ref, "namespace": namespace} if resource.namespaced else ref
