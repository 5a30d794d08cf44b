"""The Node authorizer: a kubelet reads what the pods on its node use, and nothing else of that kind.

It adds to RBAC: a node has no role that allows it to read Secrets, and needs those of its pods. Decisions are not kept,
because they follow the pods.
"""

from collections.abc import Iterator
from typing import NamedTuple

import orjson

from trimtab.api.value import Raw
from trimtab.server.auth.user import User
from trimtab.store.keys import namespace_below, resource_prefix
from trimtab.store.store import Store

NODES_GROUP = "system:nodes"
USER_PREFIX = "system:node:"
_READ_VERBS = frozenset(("get", "list", "watch"))
_PODS = resource_prefix("", "pods")


class Read(NamedTuple):
    """A request to read one object of the core group."""

    verb: str
    resource: str
    namespace: str
    name: str


def node_of(user: User) -> str:
    """The node whose kubelet this user is; empty for other users."""
    return (
        user.name.removeprefix(USER_PREFIX) if NODES_GROUP in user.groups and user.name.startswith(USER_PREFIX) else ""
    )


def node_may_read(store: Store, node: str, wanted: Read) -> bool:
    """Whether a pod on the node uses the object."""
    if wanted.verb not in _READ_VERBS or not wanted.name or not wanted.namespace:
        return False
    for entry in store.list(namespace_below(_PODS, wanted.namespace)).entries:
        if node.encode() not in entry.value:
            continue
        spec = orjson.loads(entry.value).get("spec") or {}
        if spec.get("nodeName") == node and (wanted.resource, wanted.name) in used_objects(spec):
            return True
    return False


def used_objects(spec: Raw) -> set[tuple[str, str]]:
    """Resource and name of the Secrets, ConfigMaps and claims that a pod uses."""
    return {(resource, str(name)) for resource, name in _references(spec) if name}


def _references(spec: Raw) -> Iterator[tuple[str, object]]:
    for secret in spec.get("imagePullSecrets") or ():
        yield "secrets", secret.get("name")
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            yield from _environment_references(container)
    for volume in spec.get("volumes") or ():
        yield "persistentvolumeclaims", (volume.get("persistentVolumeClaim") or {}).get("claimName")
        yield "secrets", (volume.get("secret") or {}).get("secretName")
        yield "configmaps", (volume.get("configMap") or {}).get("name")
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield "secrets", (source.get("secret") or {}).get("name")
            yield "configmaps", (source.get("configMap") or {}).get("name")


def _environment_references(container: Raw) -> Iterator[tuple[str, object]]:
    for source in container.get("envFrom") or ():
        yield "secrets", (source.get("secretRef") or {}).get("name")
        yield "configmaps", (source.get("configMapRef") or {}).get("name")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield "secrets", (source.get("secretKeyRef") or {}).get("name")
        yield "configmaps", (source.get("configMapKeyRef") or {}).get("name")
