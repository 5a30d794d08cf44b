"""Validation of MultiClusterServices, as in Karmada's webhook."""

from collections.abc import Iterator

from trimtab.api.field_errors import duplicate, invalid, not_supported, required
from trimtab.api.names import label_faults, service_name_faults
from trimtab.api.paths import indexed_objects, object_at, strings_in, value_at
from trimtab.api.value import Raw
from trimtab.errors import Cause

_TYPES = ("LoadBalancer", "CrossCluster")
_PORTS = range(1, 65536)


def check_service(service: Raw, old: Raw | None) -> list[Cause]:
    name = str(value_at(service, "metadata", "name") or "")
    causes = [invalid("metadata.name", name, fault) for fault in service_name_faults(name)]
    if old is not None and value_at(service, "spec", "types") != value_at(old, "spec", "types"):
        causes.append(
            invalid("spec.types", value_at(service, "spec", "types"), "MultiClusterService types are immutable")
        )
    return [*causes, *_check_spec(object_at(service, "spec"))]


def _check_spec(spec: Raw) -> Iterator[Cause]:
    types = strings_in(spec.get("types"))
    if len(types) > 1:
        yield invalid("spec.types", types, "MultiClusterService types should not contain more than one type")
    for i, name in enumerate(types):
        if name not in _TYPES:
            yield not_supported(f"spec.types[{i}]", name, _TYPES)
    for i, port in indexed_objects(spec.get("ports")):
        number = port.get("port")
        if isinstance(number, int) and number not in _PORTS:
            yield invalid(f"spec.ports[{i}].port", number, "must be between 1 and 65535, inclusive")
        for fault in label_faults(port["name"]) if port.get("name") else ():
            yield invalid(f"spec.ports[{i}].name", port["name"], fault)
    for key in ("providerClusters", "consumerClusters"):
        yield from _check_clusters(spec, key)


def _check_clusters(spec: Raw, key: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for i, cluster in indexed_objects(spec.get(key)):
        name, field = str(cluster.get("name", "")), f"spec.{key}[{i}]"
        if not name:
            yield required(f"{field}.name")
        for fault in label_faults(name) if name else ():
            yield invalid(f"{field}.name", name, fault)
        if name in seen:
            yield duplicate(f"{field}.name", name)
        seen.add(name)
