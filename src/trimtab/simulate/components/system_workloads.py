"""The workloads in `kube-system` of a cluster that kubeadm set up: DNS, the proxy of every node, and the control plane."""

from collections.abc import Iterator

from trimtab.api.value import Raw

NAMESPACE = "kube-system"
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
REGISTRY = "registry.k8s.io"


def control_plane_node(member: str) -> str:
    """The name of the node with the control plane, as kubeadm and kind name it."""
    return f"{member}-control-plane"


def system_objects(node: str) -> Iterator[Raw]:
    """In an order in which they can be created; the control plane runs on the node as static pods."""
    yield dns_deployment()
    yield dns_service()
    yield proxy_daemonset()
    for component in CONTROL_PLANE:
        yield mirror_pod(component, node)


def dns_deployment() -> Raw:
    labels = {"k8s-app": "kube-dns"}
    requests = {"cpu": "100m", "memory": "70Mi"}
    container = {"name": "coredns", "image": f"{REGISTRY}/coredns/coredns:v1.11.3", "resources": {"requests": requests}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return _object("apps/v1", "Deployment", "coredns", labels, spec)


def dns_service() -> Raw:
    labels = {"k8s-app": "kube-dns"}
    ports = [
        {"name": name, "port": 53, "protocol": protocol} for name, protocol in (("dns", "UDP"), ("dns-tcp", "TCP"))
    ]
    return _object("v1", "Service", "kube-dns", labels, {"clusterIP": "10.96.0.10", "selector": labels, "ports": ports})


def proxy_daemonset() -> Raw:
    labels = {"k8s-app": "kube-proxy"}
    containers = [{"name": "kube-proxy", "image": f"{REGISTRY}/kube-proxy:v1.32.2"}]
    pod = {"containers": containers, "hostNetwork": True, "tolerations": [{"operator": "Exists"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return _object(
        "apps/v1", "DaemonSet", "kube-proxy", labels, {"selector": {"matchLabels": labels}, "template": template}
    )


def mirror_pod(component: str, node: str) -> Raw:
    """A static pod as the API shows it."""
    labels = {"component": component, "tier": "control-plane"}
    containers = [{"name": component, "image": f"{REGISTRY}/{component}:v1.32.2"}]
    spec = {
        "containers": containers,
        "hostNetwork": True,
        "nodeName": node,
        "tolerations": [{"effect": "NoExecute", "operator": "Exists"}],
    }
    pod = _object("v1", "Pod", f"{component}-{node}", labels, spec)
    pod["metadata"]["annotations"] = {MIRROR_ANNOTATION: f"{component}-{node}"}
    return pod


def _object(api_version: str, kind: str, name: str, labels: dict[str, str], spec: Raw) -> Raw:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
