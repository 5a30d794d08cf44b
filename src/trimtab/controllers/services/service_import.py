"""ServiceImport: a Service for the endpoints that other clusters export, under the name `derived-NAME`.

The dependencies of the ServiceImport are this Service and its EndpointSlices, so they follow it to its clusters.
"""

from collections.abc import Iterator

from trimtab.api.kinds.networking import ServiceImport
from trimtab.api.value import Key, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, Effect, Ensure, RecordEvent, Ref, View, controller
from trimtab.controllers.services.slices import derived_service_name

SOURCE = "service-import-controller"


def derived_ref(namespace: str, name: str) -> Ref:
    return Ref("v1", "Service", namespace, derived_service_name(name))


def delete_derived(key: Key, view: View) -> Iterator[Effect]:
    ref = derived_ref(key.namespace, key.name)
    found = view.raw(ref)
    if found is not None:
        yield Delete(ref._replace(uid=found["metadata"].get("uid", "")))


@controller(ServiceImport, writes=["Service"], on_deleted=delete_derived)
def service_import(imported: ServiceImport, view: View) -> Iterator[Effect]:
    if imported.metadata.deletion_timestamp is not None or imported.spec.type != "ClusterSetIP":
        return
    seen = view.raw(derived_ref(imported.namespace, imported.name))
    wanted = derived_service(imported)
    if seen is None:
        yield Ensure(wanted)
        text = f"Sync derived service for serviceImport({imported.name}) succeed."
        yield RecordEvent(well_known.ref_of(imported), "SyncDerivedServiceSucceed", text, SOURCE, routine=True)
        return
    if with_ports(seen, wanted) != seen:
        yield Ensure(with_ports(seen, wanted), seen=seen)
    status = {"loadBalancer": {"ingress": [{"ip": ip} for ip in imported.spec.ips]} if imported.spec.ips else {}}
    if (seen.get("status") or {}).get("loadBalancer", {}).get("ingress", []) != status["loadBalancer"].get(
        "ingress", []
    ):
        yield Ensure({**seen, "status": status}, seen=seen, subresource="status")


def derived_service(imported: ServiceImport) -> Raw:
    ports: list[Raw] = []
    for one in imported.spec.ports:
        port: Raw = {"protocol": one.protocol or "TCP", "port": one.port}
        port |= {"name": one.name} if one.name else {}
        port |= {"appProtocol": one.app_protocol} if one.app_protocol else {}
        ports.append(port)
    metadata = {"namespace": imported.namespace, "name": derived_service_name(imported.name)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"type": "ClusterIP", "ports": ports}}


def with_ports(seen: Raw, wanted: Raw) -> Raw:
    """The existing Service with the ports of the import; ports that are equal keep what the server added to them."""

    def key(port: Raw) -> tuple[object, ...]:
        return (port.get("name", ""), port.get("protocol", "TCP"), port["port"], port.get("appProtocol"))

    have, want = seen["spec"].get("ports") or [], wanted["spec"]["ports"]
    if list(map(key, have)) == list(map(key, want)):
        return seen
    return {**seen, "spec": {**seen["spec"], "ports": want}}
