"""Names, labels and manifests of EndpointSlices on their way from one cluster to another."""

from trimtab.controllers import well_known
from trimtab.controllers.services import slices
from trimtab.controllers.services.slices import (
    COLLECTED_BY,
    EXPORT_NAME,
    EXPORT_NAMESPACE,
    PROVIDER_ANNOTATION,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    reporting_work,
    slice_manifest,
    with_exact_labels,
)

RAW = {
    "metadata": {"name": "web-abc", "namespace": "shop", "labels": {"a": "1"}, "uid": "u", "resourceVersion": "7"},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.0.0.1"]}],
    "ports": None,
}


def test_copy_of_a_slice_has_only_what_is_copied() -> None:
    assert slice_manifest(RAW, "m1-web", annotations={"from": "m1"}) == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "m1-web", "namespace": "shop", "labels": {"a": "1"}, "annotations": {"from": "m1"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
    }
    assert "labels" not in slice_manifest(RAW, labels={})["metadata"]
    assert slice_manifest(RAW)["metadata"]["name"] == "web-abc"


def test_reporting_work_is_in_the_namespace_of_its_cluster_and_never_dispatched() -> None:
    work = reporting_work(slice_manifest(RAW), "m1", {COLLECTED_BY: "x"})
    assert work.namespace == well_known.execution_namespace("m1")
    assert work.spec.suspend_dispatching
    assert work.metadata.labels[well_known.WORK_ID]
    assert slices.is_collected_slice(work)
    assert not slices.is_dispatched_slice(work)
    assert slices.kinds_in(work) == {"EndpointSlice"}
    dispatched = work.but(metadata=work.metadata.but(annotations={PROVIDER_ANNOTATION: "m1"}))
    assert (slices.is_collected_slice(dispatched), slices.is_dispatched_slice(dispatched)) == (False, True)


def test_work_is_found_by_its_service_and_its_export() -> None:
    labels = {SERVICE_NAMESPACE: "shop", SERVICE_NAME: "web", EXPORT_NAMESPACE: "shop", EXPORT_NAME: "api"}
    work = reporting_work(slice_manifest(RAW), "m1", labels)
    assert list(slices.service_of_labels(work)) == ["shop/web"]
    assert list(slices.export_of_labels(work)) == ["shop/api"]
    plain = reporting_work(slice_manifest(RAW), "m1", {})
    assert not [*slices.service_of_labels(plain), *slices.export_of_labels(plain)]


def test_labels_of_a_service_that_a_work_left_are_removed() -> None:
    before = reporting_work(slice_manifest(RAW), "m1", {SERVICE_NAME: "old"})
    before = before.but(metadata=before.metadata.but(resource_version="7"))
    wanted = reporting_work(slice_manifest(RAW, "other"), "m1", {EXPORT_NAME: "api"})
    after = with_exact_labels(before, wanted)
    assert SERVICE_NAME not in after.metadata.labels
    assert (after.metadata.resource_version, after.spec) == ("7", wanted.spec)
