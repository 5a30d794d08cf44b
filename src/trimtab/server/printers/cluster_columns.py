"""Table columns of endpoints, volumes, policies, certificates and other kinds that belong to a whole cluster."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from trimtab.api.paths import object_at, objects_at, value_at
from trimtab.api.quantity import canonical_form
from trimtab.api.value import Raw
from trimtab.server.printers.cells import (
    NONE,
    ColumnSet,
    container_columns,
    format_duration,
    format_labels,
    format_selector,
    object_age,
    object_name,
    parse_headers,
)

_UNSET = "<unset>"
_SHOWN = 3
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def format_access_modes(modes: Sequence[str]) -> str:
    """Short forms of access modes, each once, in the order of Kubernetes."""
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes)


def _format_first(items: Sequence[str]) -> str:
    """The first items, and how many others there are."""
    text = ",".join(items[:_SHOWN])
    return f"{text} + {len(items) - _SHOWN} more..." if len(items) > _SHOWN else text


def _host_port(address: str, port: Any) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _endpoints_cells(obj: Raw, now: datetime) -> list[Any]:
    found: list[str] = []
    for subset in objects_at(obj, "subsets"):
        addresses = [one.get("ip", "") for one in objects_at(subset, "addresses")]
        ports = [one.get("port", 0) for one in objects_at(subset, "ports")]
        found += [_host_port(one, port) for port in ports for one in addresses] if ports else addresses
    text = _format_first(found) if obj.get("subsets") else NONE
    return [object_name(obj), text, object_age(obj, now)]


def _endpoint_slice_cells(obj: Raw, now: datetime) -> list[Any]:
    ports = [str(one.get("port") or one.get("name") or "*") for one in objects_at(obj, "ports")]
    addresses = [address for one in objects_at(obj, "endpoints") for address in one.get("addresses") or ()]
    texts = [_format_first(ports) if ports else _UNSET, _format_first(addresses) if addresses else _UNSET]
    return [object_name(obj), obj.get("addressType", ""), *texts, object_age(obj, now)]


def _volume_cells(obj: Raw, now: datetime) -> list[Any]:
    spec, status = object_at(obj, "spec"), object_at(obj, "status")
    claim = object_at(spec, "claimRef")
    return [
        object_name(obj),
        canonical_form(value_at(spec, "capacity", "storage") or "0"),
        format_access_modes(spec.get("accessModes") or ()),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or _UNSET,
        status.get("reason", ""),
        object_age(obj, now),
        spec.get("volumeMode") or _UNSET,
    ]


def _storage_class_cells(obj: Raw, now: datetime) -> list[Any]:
    annotations = object_at(obj, "metadata", "annotations")
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        object_name(obj) + (" (default)" if is_default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        object_age(obj, now),
    ]


def _volume_attachment_cells(obj: Raw, now: datetime) -> list[Any]:
    spec = object_at(obj, "spec")
    volume = value_at(spec, "source", "persistentVolumeName") or ""
    attached = bool(value_at(obj, "status", "attached"))
    attachment = [spec.get("attacher", ""), volume, spec.get("nodeName", ""), attached]
    return [object_name(obj), *attachment, object_age(obj, now)]


def _csi_driver_cells(obj: Raw, now: datetime) -> list[Any]:
    spec = object_at(obj, "spec")
    tokens = spec.get("tokenRequests")
    return [
        object_name(obj),
        spec.get("attachRequired") is not False,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        _UNSET if tokens is None else ",".join(one.get("audience", "") for one in tokens),
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        object_age(obj, now),
    ]


def _csi_node_cells(obj: Raw, now: datetime) -> list[Any]:
    return [object_name(obj), len(objects_at(obj, "spec", "drivers")), object_age(obj, now)]


def _csi_storage_capacity_cells(obj: Raw, now: datetime) -> list[Any]:
    capacity = obj.get("capacity")
    text = _UNSET if capacity is None else canonical_form(capacity)
    return [object_name(obj), obj.get("storageClassName", ""), text]


def _pod_template_cells(obj: Raw, now: datetime) -> list[Any]:
    labels = object_at(obj, "template", "metadata", "labels")
    return [object_name(obj), *container_columns(object_at(obj, "template", "spec")), format_labels(labels)]


def _service_account_cells(obj: Raw, now: datetime) -> list[Any]:
    return [object_name(obj), len(obj.get("secrets") or ()), object_age(obj, now)]


def _controller_revision_cells(obj: Raw, now: datetime) -> list[Any]:
    owner = next((one for one in objects_at(obj, "metadata", "ownerReferences") if one.get("controller")), None)
    name = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = f"{owner.get('kind', '')}.{group}" if group else owner.get("kind", "")
        name = f"{kind.lower()}/{owner.get('name', '')}"
    return [object_name(obj), name, obj.get("revision", 0), object_age(obj, now)]


def _policy_cells(obj: Raw, now: datetime) -> list[Any]:
    spec = object_at(obj, "spec")
    kind = object_at(spec, "paramKind")
    text = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else _UNSET
    return [object_name(obj), len(objects_at(spec, "validations")), text, object_age(obj, now)]


def _policy_binding_cells(obj: Raw, now: datetime) -> list[Any]:
    spec = object_at(obj, "spec")
    reference = object_at(spec, "paramRef")
    parameters = _UNSET
    if name := reference.get("name"):
        parameters = f"{reference.get('namespace') or '*'}/{name}"
    elif reference.get("selector") is not None:
        parameters = format_selector(reference["selector"])
    return [object_name(obj), spec.get("policyName", ""), parameters, object_age(obj, now)]


def _api_service_cells(obj: Raw, now: datetime) -> list[Any]:
    service = object_at(obj, "spec", "service")
    place = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    conditions = objects_at(obj, "status", "conditions")
    available: Raw = next((one for one in conditions if one.get("type") == "Available"), {})
    status = available.get("status", "Unknown")
    if status != "True" and available.get("reason"):
        status = f"{status} ({available['reason']})"
    return [object_name(obj), place, status, object_age(obj, now)]


def _signing_request_cells(obj: Raw, now: datetime) -> list[Any]:
    spec, types = object_at(obj, "spec"), {one.get("type") for one in objects_at(obj, "status", "conditions")}
    states = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    states += ["Failed"] if "Failed" in types else []
    states += ["Issued"] if value_at(obj, "status", "certificate") else []
    seconds = spec.get("expirationSeconds")
    return [
        object_name(obj),
        object_age(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else format_duration(timedelta(seconds=seconds)),
        ",".join(states),
    ]


def _ingress_class_cells(obj: Raw, now: datetime) -> list[Any]:
    spec = object_at(obj, "spec")
    parameters = object_at(spec, "parameters")
    text = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
        text = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    return [object_name(obj), spec.get("controller", ""), text, object_age(obj, now)]


def _network_policy_cells(obj: Raw, now: datetime) -> list[Any]:
    return [object_name(obj), format_selector(object_at(obj, "spec", "podSelector")), object_age(obj, now)]


def _runtime_class_cells(obj: Raw, now: datetime) -> list[Any]:
    return [object_name(obj), obj.get("handler", ""), object_age(obj, now)]


_VOLUMES = (
    "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*"
)
_STORAGE_CLASSES = "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age"
_CSI_DRIVERS = "Name|AttachRequired?|PodInfoOnMount?|StorageCapacity?|TokenRequests|RequiresRepublish?|Modes|Age"
_SIGNING_REQUESTS = "Name|Age|SignerName|Requestor|RequestedDuration|Condition"
CLUSTER_COLUMNS: dict[str, ColumnSet] = {
    "endpoints": ColumnSet(parse_headers("Name|Endpoints|Age"), _endpoints_cells),
    "endpointslices.discovery.k8s.io": ColumnSet(
        parse_headers("Name|AddressType|Ports|Endpoints|Age"), _endpoint_slice_cells
    ),
    "persistentvolumes": ColumnSet(parse_headers(_VOLUMES), _volume_cells),
    "storageclasses.storage.k8s.io": ColumnSet(parse_headers(_STORAGE_CLASSES), _storage_class_cells),
    "volumeattachments.storage.k8s.io": ColumnSet(
        parse_headers("Name|Attacher|PV|Node|Attached?|Age"), _volume_attachment_cells
    ),
    "csidrivers.storage.k8s.io": ColumnSet(parse_headers(_CSI_DRIVERS), _csi_driver_cells),
    "csinodes.storage.k8s.io": ColumnSet(parse_headers("Name|Drivers#|Age"), _csi_node_cells),
    "csistoragecapacities.storage.k8s.io": ColumnSet(
        parse_headers("Name|StorageClassName|Capacity"), _csi_storage_capacity_cells
    ),
    "podtemplates": ColumnSet(parse_headers("Name|Containers|Images|Pod Labels"), _pod_template_cells),
    "serviceaccounts": ColumnSet(parse_headers("Name|Secrets|Age"), _service_account_cells),
    "controllerrevisions.apps": ColumnSet(parse_headers("Name|Controller|Revision|Age"), _controller_revision_cells),
    "validatingadmissionpolicies.admissionregistration.k8s.io": ColumnSet(
        parse_headers("Name|Validations#|ParamKind|Age"), _policy_cells
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": ColumnSet(
        parse_headers("Name|PolicyName|ParamRef|Age"), _policy_binding_cells
    ),
    "apiservices.apiregistration.k8s.io": ColumnSet(parse_headers("Name|Service|Available|Age"), _api_service_cells),
    "certificatesigningrequests.certificates.k8s.io": ColumnSet(
        parse_headers(_SIGNING_REQUESTS), _signing_request_cells
    ),
    "ingressclasses.networking.k8s.io": ColumnSet(
        parse_headers("Name|Controller|Parameters|Age"), _ingress_class_cells
    ),
    "networkpolicies.networking.k8s.io": ColumnSet(parse_headers("Name|Pod-Selector|Age"), _network_policy_cells),
    "runtimeclasses.node.k8s.io": ColumnSet(parse_headers("Name|Handler|Age"), _runtime_class_cells),
}
