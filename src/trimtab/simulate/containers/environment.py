"""The environment variables of a simulated container: of the pod spec, of ConfigMaps and Secrets, of Services."""

import base64
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import orjson

from trimtab.api.quantity import parse_quantity
from trimtab.api.value import Raw

_REFERENCE = re.compile(r"\$\$|\$\((\w[\w.-]*)\)")
NOTHING: Mapping[str, str] = {}
_KEYED_FIELD = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]\Z")


class ConfigReference(NamedTuple):
    """A ConfigMap or Secret that a pod uses."""

    kind: str
    name: str


class TokenReference(NamedTuple):
    """A token of the pod's account that a projected volume holds."""

    audience: str
    seconds: int


class MissingConfig(Exception):
    """A ConfigMap, a Secret or a key of one does not exist."""


class PodConfig(NamedTuple):
    """What was read for a pod."""

    objects: Mapping[ConfigReference, Raw | None]
    services: tuple[Raw, ...] = ()
    tokens: Mapping[TokenReference, str] = {}


def data_of(obj: Raw, kind: str) -> dict[str, str]:
    """The entries of a ConfigMap or Secret as text."""
    data = obj.get("data") or {}
    if kind == "ConfigMap":
        return dict(data)
    return {key: base64.b64decode(value).decode("utf-8", "replace") for key, value in data.items()}


def config_references(spec: Raw) -> set[ConfigReference]:
    """The ConfigMaps and Secrets that the containers and volumes of a pod need."""
    found: set[ConfigReference] = set()
    for container in _containers(spec):
        found |= environment_references(container)
    for volume in spec.get("volumes") or ():
        found |= _references(volume, "configMap", "", "name") | _references(volume, "", "secret", "secretName")
        for source in projected_sources(volume):
            found |= _references(source, "configMap", "secret", "name")
    return found


def environment_references(container: Raw) -> set[ConfigReference]:
    """The ConfigMaps and Secrets that the variables of the container need."""
    found: set[ConfigReference] = set()
    for source in container.get("envFrom") or ():
        found |= _references(source, "configMapRef", "secretRef", "name")
    for variable in container.get("env") or ():
        found |= _references(variable.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef", "name")
    return found


def projected_sources(volume: Raw) -> list[Raw]:
    return (volume.get("projected") or {}).get("sources") or []


def token_references(spec: Raw) -> set[TokenReference]:
    """The tokens that the volumes of a pod need."""
    return {
        token_reference(source["serviceAccountToken"])
        for volume in spec.get("volumes") or ()
        for source in projected_sources(volume)
        if source.get("serviceAccountToken")
    }


def token_reference(source: Raw) -> TokenReference:
    return TokenReference(source.get("audience") or "", int(source.get("expirationSeconds") or 3600))


def _containers(spec: Raw) -> Iterator[Raw]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(part) or ()


def _references(source: Raw, config_map: str, secret: str, name: str) -> set[ConfigReference]:
    found = set()
    for field, kind in ((config_map, "ConfigMap"), (secret, "Secret")):
        if field and source.get(field) and source[field].get(name):
            found.add(ConfigReference(kind, source[field][name]))
    return found


def environment_of(
    container: Raw, pod: Raw, config: PodConfig, allocatable: Mapping[str, str] = NOTHING
) -> dict[str, str]:
    """All variables of the container; raises `MissingConfig`. What a node can allocate is the limit of who has none."""
    metadata, spec = pod["metadata"], pod["spec"]
    variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    variables["HOSTNAME"] = spec.get("hostname") or metadata["name"]
    variables |= service_variables(
        config.services, metadata["namespace"], links=spec.get("enableServiceLinks") is not False
    )
    for source in container.get("envFrom") or ():
        prefix = source.get("prefix") or ""
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if reference := source.get(field):
                found = _read(config, kind, reference)
                variables |= {f"{prefix}{key}": value for key, value in found.items()}
    for variable in container.get("env") or ():
        resource = (variable.get("valueFrom") or {}).get("resourceFieldRef")
        value = resource_value(resource, container, pod, allocatable) if resource else _value_of(variable, pod, config)
        if value is not None:
            variables[variable["name"]] = _REFERENCE.sub(
                lambda match: "$" if match[0] == "$$" else variables.get(match[1], match[0]), value
            )
    return variables


def _read(config: PodConfig, kind: str, reference: Raw) -> dict[str, str]:
    found = config.objects.get(ConfigReference(kind, reference.get("name") or ""))
    if found is not None:
        return data_of(found, kind)
    if reference.get("optional"):
        return {}
    raise MissingConfig(f'{kind.lower()} "{reference.get("name")}" not found')


def _value_of(variable: Raw, pod: Raw, config: PodConfig) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        return variable.get("value") or ""
    if field := source.get("fieldRef"):
        return field_value(pod, field.get("fieldPath") or "")
    for part, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if reference := source.get(part):
            value = _read(config, kind, reference).get(reference.get("key") or "")
            if value is None and not reference.get("optional"):
                raise MissingConfig(f"couldn't find key {reference.get('key')} in {kind} {reference.get('name')}")
            return value
    return ""


def field_value(pod: Raw, path: str) -> str:
    """A field of the pod that the downward API offers."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if match := _KEYED_FIELD.match(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        entries = metadata.get(path.partition(".")[2]) or {}
        return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(entries.items()))
    found = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
        "status.podIP": status.get("podIP"),
        "status.podIPs": ",".join(one.get("ip", "") for one in status.get("podIPs") or ()),
        "status.hostIP": status.get("hostIP"),
        "status.hostIPs": ",".join(one.get("ip", "") for one in status.get("hostIPs") or ()),
    }
    return str(found.get(path) or "")


def _quoted(value: str) -> str:
    """The value as Go quotes it."""
    return orjson.dumps(value).decode()


def resource_value(reference: Raw, container: Raw | None, pod: Raw, allocatable: Mapping[str, str]) -> str:
    """A request or limit in units of the divisor, rounded up; `container` unless the reference names another."""
    if name := reference.get("containerName"):
        container = next((one for one in _containers(pod["spec"]) if one["name"] == name), None)
    part, _, resource = (reference.get("resource") or "").partition(".")
    amount = (((container or {}).get("resources") or {}).get(part) or {}).get(resource)
    if amount is None:
        amount = "0" if part == "requests" else allocatable.get(resource, "0")
    divisor = parse_quantity(reference.get("divisor") or "0") or 1
    return str(math.ceil(parse_quantity(amount) / divisor))


def service_variables(services: Iterable[Raw], namespace: str, *, links: bool) -> dict[str, str]:
    """Host and port of the Services of the namespace, and always of the API server."""
    variables: dict[str, str] = {}
    for service in services:
        metadata, spec = service["metadata"], service.get("spec") or {}
        is_api_server = (metadata["namespace"], metadata["name"]) == ("default", "kubernetes")
        address, ports = spec.get("clusterIP"), spec.get("ports") or ()
        if (
            not ports
            or address in (None, "", "None")
            or not (is_api_server or (links and metadata["namespace"] == namespace))
        ):
            continue
        name = metadata["name"].upper().replace("-", "_")
        variables[f"{name}_SERVICE_HOST"] = address
        variables[f"{name}_SERVICE_PORT"] = str(ports[0]["port"])
        for port in ports:
            if port.get("name"):
                variables[f"{name}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
            protocol = port.get("protocol") or "TCP"
            stem = f"{name}_PORT_{port['port']}_{protocol}"
            url = f"{protocol.lower()}://{address}:{port['port']}"
            variables |= {
                stem: url,
                f"{stem}_PROTO": protocol.lower(),
                f"{stem}_PORT": str(port["port"]),
                f"{stem}_ADDR": address,
            }
        first = ports[0]
        variables[f"{name}_PORT"] = f"{(first.get('protocol') or 'TCP').lower()}://{address}:{first['port']}"
    return variables
