"""Names, labels and manifests of EndpointSlices on their way from one cluster to another.

A collected slice is a Work in the execution namespace of its cluster that is never dispatched: it reports what the cluster has.
A dispatched slice is a Work in the execution namespace of another cluster, which gets a copy.
"""

from collections.abc import Iterable
from typing import NamedTuple

from trimtab.api.kinds.work import Work, WorkloadTemplate, WorkSpec
from trimtab.api.value import Meta, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Index
from trimtab.interpret.names import work_name

SLICE_VERSION, SLICE_KIND = "discovery.k8s.io/v1", "EndpointSlice"
SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
DISPATCHER, IMPORTER = "endpointslice-dispatch-controller.karmada.io", "endpointslice-controller.karmada.io"
EXPORT_NAMESPACE, EXPORT_NAME = "endpointslice.karmada.io/namespace", "endpointslice.karmada.io/name"
COLLECTED_BY = "endpointslice.karmada.io/managed-by"
PROVIDER_ANNOTATION = "endpointslice.karmada.io/provision-cluster"
SERVICE_NAMESPACE, SERVICE_NAME = "multiclusterservice.karmada.io/namespace", "multiclusterservice.karmada.io/name"
SERVICE_ID = "multiclusterservice.karmada.io/permanent-id"
EXPORT_KIND, SERVICE_KIND = "ServiceExport", "MultiClusterService"


class ServiceOfCluster(NamedTuple):
    """One service in one cluster."""

    cluster: str
    namespace: str
    name: str


def kinds_in(work: Work) -> set[str]:
    return {str(manifest.get("kind", "")) for manifest in work.spec.workload.manifests}


def is_collected_slice(work: Work) -> bool:
    return COLLECTED_BY in work.metadata.labels and PROVIDER_ANNOTATION not in work.metadata.annotations


def is_dispatched_slice(work: Work) -> bool:
    return PROVIDER_ANNOTATION in work.metadata.annotations


def service_of_labels(work: Work) -> Iterable[str]:
    """`namespace/name` of the MultiClusterService of a Work."""
    labels = work.metadata.labels
    if SERVICE_NAME in labels:
        yield f"{labels.get(SERVICE_NAMESPACE, '')}/{labels[SERVICE_NAME]}"


def export_of_labels(work: Work) -> Iterable[str]:
    labels = work.metadata.labels
    if EXPORT_NAME in labels:
        yield f"{labels.get(EXPORT_NAMESPACE, '')}/{labels[EXPORT_NAME]}"


WORKS_OF_SERVICE = Index("works of a multi-cluster service", Work, service_of_labels)
WORKS_OF_EXPORT = Index("works of a service export", Work, export_of_labels)


def derived_service_name(name: str) -> str:
    return f"derived-{name}"


def slice_manifest(raw: Raw, name: str = "", **metadata: dict[str, str]) -> Raw:
    """What is copied of a slice; `metadata` replaces labels and annotations."""
    own = raw["metadata"]
    labels = {"labels": dict(own.get("labels") or {}), **metadata}
    copied = {key: raw[key] for key in ("addressType", "endpoints", "ports") if raw.get(key) is not None}
    place = {"name": name or own["name"], "namespace": own.get("namespace", "")}
    kept = {key: value for key, value in labels.items() if value}
    return {"apiVersion": SLICE_VERSION, "kind": SLICE_KIND, "metadata": {**place, **kept}, **copied}


def reporting_work(manifest: Raw, cluster: str, labels: dict[str, str]) -> Work:
    """A Work that is not dispatched: it says what a cluster has, or what is asked of it."""
    metadata = manifest["metadata"]
    name = work_name(manifest["kind"], metadata["name"], metadata.get("namespace", ""))
    identity = {well_known.WORK_ID: well_known.permanent_id(cluster, name)}
    return Work(
        metadata=Meta(namespace=well_known.execution_namespace(cluster), name=name, labels={**labels, **identity}),
        spec=WorkSpec(workload=WorkloadTemplate(manifests=(manifest,)), suspend_dispatching=True),
    )


def with_exact_labels(before: Work, wanted: Work) -> Work:
    """The existing Work with labels and spec of the wanted one: labels of a service that it left are removed."""
    metadata = before.metadata.but(labels=wanted.metadata.labels, annotations=wanted.metadata.annotations)
    return before.but(metadata=metadata, spec=wanted.spec)
