"""The Node authorizer: what a kubelet may do with its node, with the pods on it, and with what these use.

It adds to RBAC: a node has no role that allows it to read Secrets, and needs those of its pods. Decisions are not kept,
because they follow the pods. What a kubelet creates is not among its rights: that would need a check of the whole object.
"""

from collections.abc import Iterator
from typing import NamedTuple

import orjson

from trimtab.api.value import Raw
from trimtab.server.auth.user import User
from trimtab.store.keys import key_below, namespace_below, resource_prefix
from trimtab.store.store import Store

NODES_GROUP = "system:nodes"
USER_PREFIX = "system:node:"
_READ_VERBS = frozenset(("get", "list", "watch"))
_CHANGE_VERBS = frozenset(("patch", "update"))
_LEASE_VERBS = frozenset(("get", "update", "patch", "delete"))
_READ_BY_ALL = frozenset((("", "services"), ("node.k8s.io", "runtimeclasses"), ("storage.k8s.io", "csidrivers")))
LEASE_NAMESPACE = "kube-node-lease"
_PODS = resource_prefix("", "pods")


class NodeRequest(NamedTuple):
    """What a kubelet wants to do."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str


def node_of(user: User) -> str:
    """The node whose kubelet this user is; empty for other users."""
    return (
        user.name.removeprefix(USER_PREFIX) if NODES_GROUP in user.groups and user.name.startswith(USER_PREFIX) else ""
    )


def is_allowed_to_node(store: Store, node: str, wanted: NodeRequest) -> bool:
    """Whether the kubelet of a node may do this."""
    reads = wanted.verb in _READ_VERBS and not wanted.subresource
    if reads and (wanted.group, wanted.resource) in _READ_BY_ALL:
        return True
    writes_status = wanted.verb in _CHANGE_VERBS and wanted.subresource == "status"
    if (wanted.group, wanted.resource) == ("", "nodes"):
        return wanted.name == node and (reads or writes_status)
    if (wanted.group, wanted.resource) == ("", "pods"):
        is_read = wanted.verb == "get" and not wanted.subresource
        return (is_read or writes_status) and _node_of_pod(store, wanted) == node
    if (wanted.group, wanted.resource) == ("coordination.k8s.io", "leases"):
        is_own = wanted.namespace == LEASE_NAMESPACE and wanted.name == node and not wanted.subresource
        return is_own and wanted.verb in _LEASE_VERBS
    return reads and not wanted.group and _is_used_by_pods(store, node, wanted)


def _node_of_pod(store: Store, wanted: NodeRequest) -> str:
    entry = store.get(key_below(_PODS, wanted.name, wanted.namespace)) if wanted.namespace and wanted.name else None
    return str((orjson.loads(entry.value).get("spec") or {}).get("nodeName") or "") if entry is not None else ""


def _is_used_by_pods(store: Store, node: str, wanted: NodeRequest) -> bool:
    """Whether a pod on the node uses the object."""
    if not wanted.name or not wanted.namespace:
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
