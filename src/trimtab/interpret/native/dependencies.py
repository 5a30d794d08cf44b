"""Which other objects a native kind depends on in its cluster."""

from collections.abc import Callable

from trimtab.api.paths import table, tables, text
from trimtab.api.value import Raw
from trimtab.interpret.podspec import dependencies, reference

Dependencies = Callable[[Raw], list[Raw]]


def _namespace(obj: Raw) -> str:
    return text(obj, "metadata", "namespace")


def _template_at(*path: str) -> Dependencies:
    def find(obj: Raw) -> list[Raw]:
        return dependencies(table(obj, *path), _namespace(obj))

    return find


def _pod(obj: Raw) -> list[Raw]:
    return dependencies(obj, _namespace(obj))


def _stateful_set(obj: Raw) -> list[Raw]:
    """Without the claims that the StatefulSet creates for its pods."""
    own = {text(claim, "metadata", "name") for claim in tables(obj, "spec", "volumeClaimTemplates")}
    found = dependencies(table(obj, "spec", "template"), _namespace(obj))
    return [ref for ref in found if ref["kind"] != "PersistentVolumeClaim" or ref["name"] not in own]


def _ingress(obj: Raw) -> list[Raw]:
    names = {text(entry, "secretName") for entry in tables(obj, "spec", "tls")} - {""}
    return [reference("v1", "Secret", _namespace(obj), name) for name in sorted(names)]


def _service_import(obj: Raw) -> list[Raw]:
    derived = f"derived-{text(obj, 'metadata', 'name')}"
    slices = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "namespace": _namespace(obj),
        "labelSelector": {"matchLabels": {"kubernetes.io/service-name": derived}},
    }
    return [slices, reference("v1", "Service", _namespace(obj), derived)]


DEPENDENCIES: dict[tuple[str, str], Dependencies] = {
    ("apps/v1", "Deployment"): _template_at("spec", "template"),
    ("apps/v1", "ReplicaSet"): _template_at("spec", "template"),
    ("apps/v1", "DaemonSet"): _template_at("spec", "template"),
    ("batch/v1", "Job"): _template_at("spec", "template"),
    ("batch/v1", "CronJob"): _template_at("spec", "jobTemplate", "spec", "template"),
    ("v1", "Pod"): _pod,
    ("apps/v1", "StatefulSet"): _stateful_set,
    ("networking.k8s.io/v1", "Ingress"): _ingress,
    ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"): _service_import,
}
