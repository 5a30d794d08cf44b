"""What a pod template requires: resources, node constraints, and the objects it refers to."""

from collections.abc import Iterator
from typing import Any

from trimtab.api.paths import list_at, object_at, objects_at, string_at, value_at
from trimtab.api.quantity import from_int, from_milli, int_value, milli_value
from trimtab.api.value import QuantityText, Raw

_BYTE_RESOURCES = ("memory", "ephemeral-storage", "hugepages-")
_CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")
_VOLUME_SECRET_PATHS = (
    ("azureFile", "secretName"),
    ("cephfs", "secretRef", "name"),
    ("cinder", "secretRef", "name"),
    ("flexVolume", "secretRef", "name"),
    ("rbd", "secretRef", "name"),
    ("secret", "secretName"),
    ("scaleIO", "secretRef", "name"),
    ("iscsi", "secretRef", "name"),
    ("storageos", "secretRef", "name"),
    ("csi", "nodePublishSecretRef", "name"),
)


def replica_requirements(template: Raw, *, with_priority: bool = False) -> Raw | None:
    """The ReplicaRequirements of one replica made from `template`; None when it requires nothing."""
    spec = object_at(template, "spec")
    claim, request = _node_claim(spec), resource_request(spec)
    found: Raw = ({"nodeClaim": claim} if claim else {}) | ({"resourceRequest": request} if request else {})
    if not found:
        return None
    priority = string_at(spec, "priorityClassName")
    return found | {"priorityClassName": priority} if with_priority and priority else found


def _node_claim(spec: Raw) -> Raw | None:
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    claim = {
        "hardNodeAffinity": value_at(spec, *path),
        "nodeSelector": spec.get("nodeSelector"),
        "tolerations": spec.get("tolerations"),
    }
    return {key: value for key, value in claim.items() if value} or None


def resource_request(spec: Raw) -> dict[str, str]:
    """The sum of the containers, or the largest init container where that is more, plus the overhead."""
    total: dict[str, int] = {}
    for container in objects_at(spec, "containers"):
        for name, amount in _container_requests(container).items():
            total[name] = total.get(name, 0) + amount
    for container in objects_at(spec, "initContainers"):
        for name, amount in _container_requests(container).items():
            total[name] = max(total.get(name, 0), amount)
    for name, amount in _parse_amounts(object_at(spec, "overhead")).items():
        total[name] = total.get(name, 0) + amount
    return {name: _format_amount(name, amount) for name, amount in sorted(total.items()) if amount > 0}


def _container_requests(container: Raw) -> dict[str, int]:
    """Requests; limits where a request is missing."""
    return _parse_amounts(object_at(container, "resources", "limits") | object_at(container, "resources", "requests"))


def _parse_amounts(quantities: dict[str, QuantityText]) -> dict[str, int]:
    return {
        name: milli_value(amount) if name == "cpu" else int_value(amount)
        for name, amount in quantities.items()
        if _is_schedulable_resource(name)
    }


def _is_schedulable_resource(name: str) -> bool:
    """Whether the scheduler accounts for it: the basic resources, huge pages, volumes, and anything with a domain."""
    if name in ("cpu", "memory", "ephemeral-storage", "pods"):
        return True
    if name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in name and not name.startswith("requests.")


def _format_amount(name: str, amount: int) -> str:
    if name == "cpu":
        return from_milli(amount)
    return from_int(amount, binary=name.startswith(_BYTE_RESOURCES))


def pod_dependencies(template: Raw, namespace: str) -> list[Raw]:
    """References to every object that the pods need, each once, in a fixed order."""
    spec = object_at(template, "spec")
    named = {
        *(("ConfigMap", name) for name in _config_map_names(spec)),
        *(("Secret", name) for name in _secret_names(spec)),
        *(
            ("PersistentVolumeClaim", string_at(v, "persistentVolumeClaim", "claimName"))
            for v in objects_at(spec, "volumes")
        ),
        *(("ServiceAccount", name) for name in [string_at(spec, "serviceAccountName")] if name != "default"),
    }
    return [object_reference("v1", kind, namespace, name) for kind, name in sorted(named) if name]


def object_reference(api_version: str, kind: str, namespace: str, name: str) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name}


def _containers(spec: Raw) -> Iterator[Raw]:
    for part in _CONTAINER_FIELDS:
        yield from objects_at(spec, part)


def _projected_sources(volume: Raw) -> list[Any]:
    return list_at(volume, "projected", "sources")


def _config_map_names(spec: Raw) -> Iterator[str]:
    for container in _containers(spec):
        yield from (string_at(source, "configMapRef", "name") for source in objects_at(container, "envFrom"))
        yield from (string_at(entry, "valueFrom", "configMapKeyRef", "name") for entry in objects_at(container, "env"))
    for volume in objects_at(spec, "volumes"):
        yield string_at(volume, "configMap", "name")
        yield from (string_at(source, "configMap", "name") for source in _projected_sources(volume))


def _secret_names(spec: Raw) -> Iterator[str]:
    yield from (string_at(pull, "name") for pull in objects_at(spec, "imagePullSecrets"))
    for container in _containers(spec):
        yield from (string_at(source, "secretRef", "name") for source in objects_at(container, "envFrom"))
        yield from (string_at(entry, "valueFrom", "secretKeyRef", "name") for entry in objects_at(container, "env"))
    for volume in objects_at(spec, "volumes"):
        yield from (string_at(volume, *path) for path in _VOLUME_SECRET_PATHS)
        yield from (string_at(source, "secret", "name") for source in _projected_sources(volume))
