"""Endpoints and EndpointSlices of Services, and slices that mirror Endpoints which somebody else wrote."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trimtab.api.kinds.native.network import Endpoints, EndpointSlice, Service
from trimtab.api.kinds.native.pod import Pod
from trimtab.api.value import Key, Object, Raw
from trimtab.controllers.contract import Delete, Effect, Ensure, Index, Ref, Trigger, View
from trimtab.simulate.components.registry import component
from trimtab.simulate.workloads.owned_pods import owner_reference, raw_of, safe_hash

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
SKIP_MIRROR_LABEL = "endpointslice.kubernetes.io/skip-mirror"
SLICE_CONTROLLER = "endpointslice-controller.k8s.io"
MIRROR_CONTROLLER = "endpointslicemirroring-controller.k8s.io"
HEADLESS_LABEL = "service.kubernetes.io/headless"
MAX_ENDPOINTS_PER_SLICE = 100

Ports = tuple[tuple[str, int, str], ...]
"""(name, number, protocol) of every port of a group of endpoints."""


def _service_of_slice(one: EndpointSlice) -> tuple[str, ...]:
    name = one.metadata.labels.get(SERVICE_NAME_LABEL)
    return (f"{one.metadata.namespace}/{name}",) if name else ()


SLICES_BY_SERVICE = Index("slices-of", EndpointSlice, _service_of_slice)


class PodAddress(NamedTuple):
    """The address of a pod as an endpoint."""

    pod: Pod
    is_ready: bool
    is_terminating: bool


def _services_of_pod(old: Pod | None, new: Pod | None, view: View) -> Iterator[Key]:
    if old is not None and new is not None and _endpoint_facts(old) == _endpoint_facts(new):
        return
    seen = new or old
    labels = [pod.metadata.labels for pod in (old, new) if pod is not None]
    for service in view.all(Service, seen.metadata.namespace if seen else ""):
        selector = service.spec.selector
        if selector and any(selector.items() <= one.items() for one in labels):
            yield Key("services", service.metadata.namespace, service.metadata.name)


def _endpoint_facts(pod: Pod) -> tuple[Any, ...]:
    metadata, status = pod.metadata, pod.status
    return (metadata.labels, status.pod_ip, pod.is_ready, pod.is_terminal, metadata.deletion_timestamp)


def _service_of_endpoints(old: Object | None, new: Object | None, view: View) -> Iterator[Key]:
    """The Service of the same name; Endpoints that somebody wrote without one are left alone."""
    seen = new or old
    if seen is not None and view.get(Service, seen.metadata.namespace, seen.metadata.name) is not None:
        yield Key("services", seen.metadata.namespace, seen.metadata.name)


def _service_of_own_slice(old: EndpointSlice | None, new: EndpointSlice | None, view: View) -> Iterator[Key]:
    """The Service whose slice somebody changed or deleted: it gets the right one again."""
    if old is not None and old.metadata.labels.get(MANAGED_BY_LABEL) == SLICE_CONTROLLER:
        yield Key("services", old.metadata.namespace, old.metadata.labels.get(SERVICE_NAME_LABEL, ""))


def _delete_endpoints(key: Key, view: View) -> Iterator[Effect]:
    """Delete the Endpoints of a deleted Service; its slices have it as owner."""
    found = view.get(Endpoints, key.namespace, key.name)
    if found is not None:
        yield Delete(found)


@component(
    Service,
    writes=["Endpoints", "EndpointSlice"],
    triggers=[
        Trigger(Pod, _services_of_pod),
        Trigger(Endpoints, _service_of_endpoints),
        Trigger(EndpointSlice, _service_of_own_slice),
    ],
    on_deleted=_delete_endpoints,
    name="service_endpoints",
)
def service_endpoints(service: Service, view: View) -> Iterator[Effect]:
    if service.metadata.deletion_timestamp is not None or service.spec.type == "ExternalName":
        return
    raw = raw_of(service, view)
    if not service.spec.selector:
        return
    groups = _group_by_ports(service, raw, view)
    yield from _ensure_endpoints(service, raw, groups, view)
    wanted = {}
    for ports, addresses in groups.items() or (((), []),):
        for number in range(0, max(1, len(addresses)), MAX_ENDPOINTS_PER_SLICE):
            part = addresses[number : number + MAX_ENDPOINTS_PER_SLICE]
            one = _slice(service, raw, ports, [_slice_endpoint(address) for address in part], number)
            wanted[one["metadata"]["name"]] = one
    yield from _sync_slices(service.metadata.namespace, service.metadata.name, SLICE_CONTROLLER, wanted, view)


def _group_by_ports(service: Service, raw: Raw, view: View) -> dict[Ports, list[PodAddress]]:
    """The addresses of the selected pods, grouped by the numbers of their target ports."""
    groups: dict[Ports, list[PodAddress]] = {}
    publish = bool(raw["spec"].get("publishNotReadyAddresses"))
    for pod in view.all(Pod, service.metadata.namespace):
        if not service.spec.selector.items() <= pod.metadata.labels.items():
            continue
        if not pod.status.pod_ip or pod.is_terminal:
            continue
        terminating = pod.metadata.deletion_timestamp is not None
        address = PodAddress(pod, publish or (pod.is_ready and not terminating), terminating)
        groups.setdefault(_ports_on(pod, service, view), []).append(address)
    return groups


def _ports_on(pod: Pod, service: Service, view: View) -> Ports:
    found = []
    for port in service.spec.ports:
        number = port.target_port or port.port
        if isinstance(number, str):
            named = _named_port(pod, number, port.protocol, view)
            if named is None:
                continue
            number = named
        found.append((port.name, number, port.protocol))
    return tuple(found)


def _named_port(pod: Pod, name: str, protocol: str, view: View) -> int | None:
    for container in raw_of(pod, view)["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == name and (port.get("protocol") or "TCP") == protocol:
                return int(port["containerPort"])
    return None


def _port_objects(ports: Ports) -> list[Raw]:
    return [{"name": name, "port": number, "protocol": protocol} for name, number, protocol in ports]


def _target_reference(pod: Pod) -> Raw:
    metadata = pod.metadata
    return {"kind": "Pod", "name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}


def _ensure_endpoints(
    service: Service, raw: Raw, groups: Mapping[Ports, Sequence[PodAddress]], view: View
) -> Iterator[Effect]:
    subsets = []
    for ports, addresses in sorted(groups.items()):
        subset: Raw = {
            "addresses": [_endpoint_address(one) for one in addresses if one.is_ready],
            "notReadyAddresses": [
                _endpoint_address(one) for one in addresses if not one.is_ready and not one.is_terminating
            ],
            "ports": [{key: value for key, value in one.items() if value} for one in _port_objects(ports)],
        }
        filled = {key: value for key, value in subset.items() if value}
        if "addresses" in filled or "notReadyAddresses" in filled:
            subsets.append(filled)
    metadata = service.metadata
    labels = {**metadata.labels, "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    if service.spec.cluster_ip == "None":
        labels[HEADLESS_LABEL] = ""
    seen = view.raw(Ref("v1", "Endpoints", metadata.namespace, metadata.name))
    if seen is None:
        body: Raw = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "labels": labels},
        }
        yield Ensure({**body, "subsets": subsets} if subsets else body)
    elif (seen.get("subsets") or []) != subsets or (seen["metadata"].get("labels") or {}) != labels:
        yield Ensure({**seen, "metadata": {**seen["metadata"], "labels": labels}, "subsets": subsets}, seen)


def _endpoint_address(address: PodAddress) -> Raw:
    pod = address.pod
    return {"ip": pod.status.pod_ip, "nodeName": pod.spec.node_name, "targetRef": _target_reference(pod)}


def _slice_endpoint(address: PodAddress) -> Raw:
    pod = address.pod
    conditions = {
        "ready": address.is_ready,
        "serving": pod.is_ready or address.is_ready,
        "terminating": address.is_terminating,
    }
    return {
        "addresses": [pod.status.pod_ip],
        "conditions": conditions,
        "nodeName": pod.spec.node_name,
        "targetRef": _target_reference(pod),
    }


def _slice(service: Service, raw: Raw, ports: Ports, endpoints: list[Raw], number: int) -> Raw:
    labels = {
        **{key: value for key, value in service.metadata.labels.items() if key != HEADLESS_LABEL},
        SERVICE_NAME_LABEL: service.metadata.name,
        MANAGED_BY_LABEL: SLICE_CONTROLLER,
    }
    if service.spec.cluster_ip == "None":
        labels[HEADLESS_LABEL] = ""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{service.metadata.name[:57]}-{safe_hash([service.metadata.uid, ports, number], 5)}",
            "namespace": service.metadata.namespace,
            "generateName": f"{service.metadata.name}-",
            "labels": labels,
            "ownerReferences": [owner_reference(service)],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": _port_objects(ports),
    }


def _sync_slices(
    namespace: str, service: str, controller: str, wanted: Mapping[str, Raw], view: View
) -> Iterator[Effect]:
    """Create, update and delete the slices that this controller manages for a Service."""
    for one in view.by_index(SLICES_BY_SERVICE, f"{namespace}/{service}"):
        if one.metadata.labels.get(MANAGED_BY_LABEL) == controller and one.metadata.name not in wanted:
            yield Delete(one)
    for name, made in wanted.items():
        seen = view.raw(Ref("discovery.k8s.io/v1", "EndpointSlice", namespace, name))
        if seen is None:
            yield Ensure(made)
        elif any((seen.get(field) or []) != made[field] for field in ("endpoints", "ports")) or (
            seen["metadata"].get("labels") != made["metadata"]["labels"]
        ):
            metadata = {**seen["metadata"], "labels": made["metadata"]["labels"]}
            yield Ensure({**seen, "metadata": metadata, "endpoints": made["endpoints"], "ports": made["ports"]}, seen)


# mirroring


def _endpoints_of_service(old: Service | None, new: Service | None, view: View) -> Iterator[Key]:
    seen = new or old
    if seen is not None:
        yield Key("endpoints", seen.metadata.namespace, seen.metadata.name)


def _endpoints_of_own_slice(old: EndpointSlice | None, new: EndpointSlice | None, view: View) -> Iterator[Key]:
    if old is not None and old.metadata.labels.get(MANAGED_BY_LABEL) == MIRROR_CONTROLLER:
        yield Key("endpoints", old.metadata.namespace, old.metadata.labels.get(SERVICE_NAME_LABEL, ""))


@component(
    Endpoints,
    writes=["EndpointSlice"],
    triggers=[Trigger(Service, _endpoints_of_service), Trigger(EndpointSlice, _endpoints_of_own_slice)],
    name="mirrored_endpoints",
)
def mirrored_endpoints(endpoints: Endpoints, view: View) -> Iterator[Effect]:
    metadata = endpoints.metadata
    service = view.get(Service, metadata.namespace, metadata.name)
    skipped = metadata.labels.get(SKIP_MIRROR_LABEL) == "true"
    if metadata.deletion_timestamp is not None or service is None or service.spec.selector or skipped:
        wanted: dict[str, Raw] = {}
    else:
        wanted = {one["metadata"]["name"]: one for one in _mirror_slices(endpoints, raw_of(endpoints, view))}
    yield from _sync_slices(metadata.namespace, metadata.name, MIRROR_CONTROLLER, wanted, view)


def _mirror_slices(endpoints: Endpoints, raw: Raw) -> Iterator[Raw]:
    groups: dict[tuple[str, Ports], list[Raw]] = {}
    for subset in raw.get("subsets") or ():
        ports = tuple(
            (one.get("name") or "", int(one["port"]), one.get("protocol") or "TCP") for one in subset.get("ports") or ()
        )
        for field, is_ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(field) or ():
                family = "IPv6" if ":" in address["ip"] else "IPv4"
                groups.setdefault((family, ports), []).append(_mirrored_endpoint(address, is_ready=is_ready))
    labels = {
        **{
            key: value for key, value in endpoints.metadata.labels.items() if not key.startswith("endpoints.kubernetes")
        },
        SERVICE_NAME_LABEL: endpoints.metadata.name,
        MANAGED_BY_LABEL: MIRROR_CONTROLLER,
    }
    for (family, ports), members in groups.items():
        name = f"{endpoints.metadata.name[:57]}-{safe_hash([endpoints.metadata.uid, family, ports], 5)}"
        yield {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": name,
                "namespace": endpoints.metadata.namespace,
                "generateName": f"{endpoints.metadata.name}-",
                "labels": labels,
                "ownerReferences": [owner_reference(endpoints)],
            },
            "addressType": family,
            "endpoints": members,
            "ports": _port_objects(ports),
        }


def _mirrored_endpoint(address: Raw, *, is_ready: bool) -> Raw:
    endpoint: Raw = {"addresses": [address["ip"]], "conditions": {"ready": is_ready}}
    for field in ("hostname", "nodeName", "targetRef"):
        if address.get(field):
            endpoint[field] = address[field]
    return endpoint
