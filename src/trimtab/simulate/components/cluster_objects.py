"""The objects that every cluster has from the start: the Service of its API server and a default StorageClass."""

from collections.abc import Iterator
from typing import NamedTuple

from trimtab.api.value import Raw

API_SERVER_ADDRESS = "10.96.0.1"
PROVISIONER = "simulate.trimtab.dev/volumes"
STORAGE_CLASS = "standard"
DEFAULT_CLASS_ANNOTATION = "storageclass.kubernetes.io/is-default-class"


class ApiServerAddress(NamedTuple):
    """Where the API server of a cluster listens, and the certificate of its authority in PEM."""

    ip: str
    port: int
    certificate: str


def cluster_objects(server: ApiServerAddress) -> Iterator[Raw]:
    """In an order in which they can be created."""
    yield storage_class()
    yield from api_server_objects(server)


def api_server_objects(server: ApiServerAddress) -> Iterator[Raw]:
    """What every API server makes for itself; Endpoints and their slice change with the address."""
    yield api_server_service()
    yield api_server_endpoints(server)
    yield api_server_slice(server)


def api_server_service() -> Raw:
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}
    spec = {"type": "ClusterIP", "clusterIP": API_SERVER_ADDRESS, "clusterIPs": [API_SERVER_ADDRESS], "ports": [port]}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    metadata = {"name": "kubernetes", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def api_server_endpoints(server: ApiServerAddress) -> Raw:
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    ports = [{"name": "https", "port": server.port, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "subsets": [{"addresses": [{"ip": server.ip}], "ports": ports}],
    }


def api_server_slice(server: ApiServerAddress) -> Raw:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv6" if ":" in server.ip else "IPv4",
        "endpoints": [{"addresses": [server.ip], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": server.port, "protocol": "TCP"}],
    }


def storage_class() -> Raw:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS, "annotations": {DEFAULT_CLASS_ANNOTATION: "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }
