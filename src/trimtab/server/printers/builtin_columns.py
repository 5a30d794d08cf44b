"""Table columns of Kubernetes' own kinds, as `kubectl get` prints them: one function per kind, a cell per column."""

from datetime import datetime
from typing import Any

from trimtab.api.paths import value_at
from trimtab.api.value import Raw
from trimtab.server.printers.cells import (
    NONE,
    UNKNOWN,
    ColumnSet,
    format_age,
    format_labels,
    object_age,
    object_name,
    parse_headers,
)
from trimtab.server.printers.cluster_columns import CLUSTER_COLUMNS, format_access_modes
from trimtab.server.printers.workload_columns import WORKLOAD_COLUMNS


def _configmap_cells(obj: Raw, now: datetime) -> list[Any]:
    return [object_name(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), object_age(obj, now)]


def _secret_cells(obj: Raw, now: datetime) -> list[Any]:
    return [object_name(obj), obj.get("type", ""), len(obj.get("data") or {}), object_age(obj, now)]


def _namespace_cells(obj: Raw, now: datetime) -> list[Any]:
    return [object_name(obj), value_at(obj, "status", "phase") or "", object_age(obj, now)]


def _component_status_cells(obj: Raw, now: datetime) -> list[Any]:
    healthy: Raw = next((one for one in obj.get("conditions") or () if one.get("type") == "Healthy"), {})
    status = {"True": "Healthy", "False": "Unhealthy"}.get(healthy.get("status", ""), "Unknown")
    return [object_name(obj), status, healthy.get("message", ""), healthy.get("error", "")]


def _service_ports(spec: Raw) -> str:
    ports = []
    for port in spec.get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(ports) or NONE


def _external_address(obj: Raw) -> str:
    spec = obj.get("spec") or {}
    external_ips = spec.get("externalIPs") or []
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return str(spec.get("externalName") or NONE)
    if kind == "LoadBalancer":
        ingress_addresses = [
            i.get("ip") or i.get("hostname") or "" for i in value_at(obj, "status", "loadBalancer", "ingress") or ()
        ]
        return ",".join([*ingress_addresses, *external_ips]) or "<pending>"
    return ",".join(external_ips) or NONE


def _service_cells(obj: Raw, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    return [
        object_name(obj),
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        _external_address(obj),
        _service_ports(spec),
        object_age(obj, now),
        format_labels(spec.get("selector")),
    ]


def _node_status(obj: Raw) -> str:
    conditions = {c.get("type"): c.get("status") for c in value_at(obj, "status", "conditions") or ()}
    status = "Unknown"
    if "Ready" in conditions:
        status = "Ready" if conditions["Ready"] == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if value_at(obj, "spec", "unschedulable") else status


def _node_roles(obj: Raw) -> str:
    prefix, roles = "node-role.kubernetes.io/", set()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith(prefix) and key != prefix:
            roles.add(key.removeprefix(prefix))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(roles)) or NONE


def _node_cells(obj: Raw, now: datetime) -> list[Any]:
    addresses: dict[str, str] = {}
    for address in value_at(obj, "status", "addresses") or ():
        addresses.setdefault(address.get("type", ""), address.get("address", ""))
    system = value_at(obj, "status", "nodeInfo") or {}
    return [
        object_name(obj),
        _node_status(obj),
        _node_roles(obj),
        object_age(obj, now),
        system.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        system.get("osImage") or UNKNOWN,
        system.get("kernelVersion") or UNKNOWN,
        system.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _lease_cells(obj: Raw, now: datetime) -> list[Any]:
    return [object_name(obj), value_at(obj, "spec", "holderIdentity") or "", object_age(obj, now)]


def _event_interval(obj: Raw, now: datetime) -> tuple[str, str]:
    micro = value_at(obj, "series", "lastObservedTime")
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = micro or obj.get("lastTimestamp") or first
    return format_age(last, now), format_age(first, now)


def _event_cells(obj: Raw, now: datetime) -> list[Any]:
    last, first = _event_interval(obj, now)
    involved = obj.get("involvedObject") or {}
    target = involved.get("kind", "").lower()
    if involved.get("name"):
        target = f"{target}/{involved['name']}"
    source = obj.get("source") or {}
    source_text = ", ".join(
        filter(None, (source.get("component") or obj.get("reportingComponent"), source.get("host")))
    )
    count = value_at(obj, "series", "count") or obj.get("count") or 1
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        involved.get("fieldPath", ""),
        source_text,
        str(obj.get("message", "")).strip(),
        first,
        count,
        object_name(obj),
    ]


def _priority_class_cells(obj: Raw, now: datetime) -> list[Any]:
    return [
        object_name(obj),
        obj.get("value") or 0,
        bool(obj.get("globalDefault")),
        object_age(obj, now),
        obj.get("preemptionPolicy") or "",
    ]


def _crd_cells(obj: Raw, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    versions = [
        v["name"] + ("(storage)" if v.get("storage") else "") for v in spec.get("versions") or () if v.get("served")
    ]
    established = any(
        c.get("type") == "Established" and c.get("status") == "True"
        for c in value_at(obj, "status", "conditions") or ()
    )
    return [
        object_name(obj),
        spec.get("scope", ""),
        ",".join(versions),
        obj["metadata"].get("creationTimestamp", ""),
        spec.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()) or NONE,
        established,
    ]


def _role_binding_cells(obj: Raw, now: datetime) -> list[Any]:
    role = obj.get("roleRef") or {}
    names_by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        names_by_kind.setdefault(subject.get("kind", ""), []).append(name)
    subjects = [", ".join(names_by_kind[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [object_name(obj), f"{role.get('kind', '')}/{role.get('name', '')}", object_age(obj, now), *subjects]


def _creation_cells(obj: Raw, now: datetime) -> list[Any]:
    return [object_name(obj), obj["metadata"].get("creationTimestamp", "")]


def _webhook_cells(obj: Raw, now: datetime) -> list[Any]:
    return [object_name(obj), len(obj.get("webhooks") or ()), object_age(obj, now)]


def _pvc_cells(obj: Raw, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    return [
        object_name(obj),
        phase,
        spec.get("volumeName", ""),
        str(value_at(status, "capacity", "storage") or "") if bound else "",
        format_access_modes(status.get("accessModes") or ()) if bound else "",
        spec.get("storageClassName") or "",
        status.get("currentVolumeAttributesClassName") or "<unset>",
        object_age(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _ingress_cells(obj: Raw, now: datetime) -> list[Any]:
    rules = value_at(obj, "spec", "rules") or []
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    hosts_text = ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "")
    addresses = [
        i.get("ip") or i.get("hostname") or "" for i in value_at(obj, "status", "loadBalancer", "ingress") or ()
    ]
    ports = "80, 443" if value_at(obj, "spec", "tls") else "80"
    return [
        object_name(obj),
        value_at(obj, "spec", "ingressClassName") or NONE,
        hosts_text or "*",
        ",".join(addresses),
        ports,
        object_age(obj, now),
    ]


def _resource_quota_cells(obj: Raw, now: datetime) -> list[Any]:
    hard, used = value_at(obj, "status", "hard") or {}, value_at(obj, "status", "used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        usage = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits") else requests).append(usage)
    return [object_name(obj), object_age(obj, now), ", ".join(requests), ", ".join(limits)]


def _cluster_cells(obj: Raw, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = next((c.get("status") for c in status.get("conditions") or () if c.get("type") == "Ready"), "Unknown")
    return [
        object_name(obj),
        status.get("kubernetesVersion", ""),
        spec.get("syncMode", ""),
        ready,
        object_age(obj, now),
        ",".join(spec.get("zones") or ()) or NONE,
        spec.get("region") or NONE,
        spec.get("provider") or NONE,
        spec.get("apiEndpoint") or NONE,
        spec.get("proxyURL") or NONE,
    ]


def _flow_schema_cells(obj: Raw, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    conditions = value_at(obj, "status", "conditions") or ()
    dangling = next((one.get("status", "") for one in conditions if one.get("type") == "Dangling"), "?")
    return [
        object_name(obj),
        value_at(spec, "priorityLevelConfiguration", "name") or NONE,
        str(spec.get("matchingPrecedence", 0)),
        value_at(spec, "distinguisherMethod", "type") or NONE,
        object_age(obj, now),
        dangling,
    ]


def _priority_level_cells(obj: Raw, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    part = spec.get("limited") or spec.get("exempt") or {}
    queuing = value_at(spec, "limited", "limitResponse", "queuing") or {}
    return [
        object_name(obj),
        spec.get("type", ""),
        str(part.get("nominalConcurrencyShares", NONE)),
        *(str(queuing.get(key, NONE)) for key in ("queues", "handSize", "queueLengthLimit")),
        object_age(obj, now),
    ]


_ROLE_BINDINGS = ColumnSet(parse_headers("Name|Role|Age|Users*|Groups*|ServiceAccounts*"), _role_binding_cells)
_CREATION_TIME = ColumnSet(parse_headers("Name|Created At@"), _creation_cells)
_WEBHOOKS = ColumnSet(parse_headers("Name|Webhooks#|Age"), _webhook_cells)
BUILTIN_COLUMNS: dict[str, ColumnSet] = {
    **WORKLOAD_COLUMNS,
    **CLUSTER_COLUMNS,
    "configmaps": ColumnSet(parse_headers("Name|Data|Age"), _configmap_cells),
    "secrets": ColumnSet(parse_headers("Name|Type|Data|Age"), _secret_cells),
    "namespaces": ColumnSet(parse_headers("Name|Status|Age"), _namespace_cells),
    "componentstatuses": ColumnSet(parse_headers("Name|Status|Message|Error"), _component_status_cells),
    "services": ColumnSet(parse_headers("Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*"), _service_cells),
    "nodes": ColumnSet(
        parse_headers(
            "Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*"
        ),
        _node_cells,
    ),
    "leases.coordination.k8s.io": ColumnSet(parse_headers("Name|Holder|Age"), _lease_cells),
    "events": ColumnSet(
        parse_headers("Last Seen-|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*"), _event_cells
    ),
    "priorityclasses.scheduling.k8s.io": ColumnSet(
        parse_headers("Name|Value#|Global-Default?|Age|PreemptionPolicy"), _priority_class_cells
    ),
    "flowschemas.flowcontrol.apiserver.k8s.io": ColumnSet(
        parse_headers("Name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL"), _flow_schema_cells
    ),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": ColumnSet(
        parse_headers("Name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age"), _priority_level_cells
    ),
    "customresourcedefinitions.apiextensions.k8s.io": ColumnSet(
        parse_headers("Name|Scope|Versions|Created At@|Group*|Kind*|ShortNames*|Established?*"), _crd_cells
    ),
    "rolebindings.rbac.authorization.k8s.io": _ROLE_BINDINGS,
    "clusterrolebindings.rbac.authorization.k8s.io": _ROLE_BINDINGS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "persistentvolumeclaims": ColumnSet(
        parse_headers("Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*"),
        _pvc_cells,
    ),
    "ingresses.networking.k8s.io": ColumnSet(parse_headers("Name|Class|Hosts|Address|Ports|Age"), _ingress_cells),
    "resourcequotas": ColumnSet(parse_headers("Name|Age|Request|Limit"), _resource_quota_cells),
    "clusters.cluster.karmada.io": ColumnSet(
        parse_headers("Name|Version|Mode|Ready|Age|Zones*|Region*|Provider*|API-Endpoint*|Proxy-URL*"), _cluster_cells
    ),
}


def columns_for(kind_id: str) -> ColumnSet:
    """The columns of a built-in kind; kinds without columns of their own show the name and the creation time."""
    return BUILTIN_COLUMNS.get(kind_id, _CREATION_TIME)
