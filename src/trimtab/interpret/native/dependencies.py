"""Which other objects a native kind depends on in its cluster."""

from collections.abc import Callable

from trimtab.api.paths import object_at, objects_at, string_at
from trimtab.api.value import Raw
from trimtab.interpret.podspec import object_reference, pod_dependencies

FindDependencies = Callable[[Raw], list[Raw]]


def _namespace(obj: Raw) -> str:
    return string_at(obj, "metadata", "namespace")


def _template_dependencies_at(*path: str) -> FindDependencies:
    def find(obj: Raw) -> list[Raw]:
        return pod_dependencies(object_at(obj, *path), _namespace(obj))

    return find


def _pod_dependencies(obj: Raw) -> list[Raw]:
    return pod_dependencies(obj, _namespace(obj))


def _stateful_set_dependencies(obj: Raw) -> list[Raw]:
    """Without the claims that the StatefulSet creates for its pods."""
    own = {string_at(claim, "metadata", "name") for claim in objects_at(obj, "spec", "volumeClaimTemplates")}
    found = pod_dependencies(object_at(obj, "spec", "template"), _namespace(obj))
    return [ref for ref in found if ref["kind"] != "PersistentVolumeClaim" or ref["name"] not in own]


def _ingress_dependencies(obj: Raw) -> list[Raw]:
    names = {string_at(entry, "secretName") for entry in objects_at(obj, "spec", "tls")} - {""}
    return [object_reference("v1", "Secret", _namespace(obj), name) for name in sorted(names)]


def _service_import_dependencies(obj: Raw) -> list[Raw]:
    derived = f"derived-{string_at(obj, 'metadata', 'name')}"
    slices = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "namespace": _namespace(obj),
        "labelSelector": {"matchLabels": {"kubernetes.io/service-name": derived}},
    }
    return [slices, object_reference("v1", "Service", _namespace(obj), derived)]


DEPENDENCIES: dict[tuple[str, str], FindDependencies] = {
    ("apps/v1", "Deployment"): _template_dependencies_at("spec", "template"),
    ("apps/v1", "ReplicaSet"): _template_dependencies_at("spec", "template"),
    ("apps/v1", "DaemonSet"): _template_dependencies_at("spec", "template"),
    ("batch/v1", "Job"): _template_dependencies_at("spec", "template"),
    ("batch/v1", "CronJob"): _template_dependencies_at("spec", "jobTemplate", "spec", "template"),
    ("v1", "Pod"): _pod_dependencies,
    ("apps/v1", "StatefulSet"): _stateful_set_dependencies,
    ("networking.k8s.io/v1", "Ingress"): _ingress_dependencies,
    ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"): _service_import_dependencies,
}
