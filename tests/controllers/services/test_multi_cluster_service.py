"""A MultiClusterService places its Service and dispatches slices from providers to consumers."""

from typing import Any

import msgspec
from builders import cluster
from views import FakeView

from trimtab.api.kind import key_of
from trimtab.api.kinds.native.namespace import Namespace
from trimtab.api.kinds.networking import MultiClusterService
from trimtab.api.kinds.work import ResourceBinding, Work
from trimtab.api.value import Object, Raw
from trimtab.controllers import well_known
from trimtab.controllers.contract import Delete, Ensure, RecordEvent
from trimtab.controllers.services import slices
from trimtab.controllers.services.multi_cluster_service import (
    FINALIZER,
    all_services,
    multi_cluster_service,
    services_of_changed_work,
)

SERVICE: Raw = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop", "uid": "s"}}


def service(providers: str = "m1", consumers: str = "m2", **metadata: Any) -> MultiClusterService:
    body = {"namespace": "shop", "name": "web", "uid": "u", "finalizers": [FINALIZER], **metadata}
    spec = {
        "types": ["CrossCluster"],
        "providerClusters": [{"name": name} for name in providers.split()],
        "consumerClusters": [{"name": name} for name in consumers.split()],
    }
    return msgspec.convert({"metadata": body, "spec": spec}, MultiClusterService)


def fleet(*names: str, ready: str = "True") -> list[Object]:
    spaces = [msgspec.convert({"metadata": {"name": f"karmada-es-{name}"}}, Namespace) for name in names]
    return [*(cluster(name, ready=ready) for name in names), *spaces]


def reconcile(subject: MultiClusterService, *others: Object, raws: tuple[Raw, ...] = (SERVICE,)) -> list[Any]:
    return list(multi_cluster_service(subject, FakeView([subject, *others], raws=raws)))


def collected(subject: MultiClusterService, provider: str = "m1") -> Work:
    manifest = {"kind": "EndpointSlice", "metadata": {"name": "web-x", "namespace": "shop"}, "endpoints": [{}]}
    labels = {slices.SERVICE_NAMESPACE: "shop", slices.SERVICE_NAME: subject.name, slices.COLLECTED_BY: "M"}
    return slices.reporting_work(slices.slice_manifest(manifest), provider, labels)


def works_in(effects: list[Any]) -> dict[str, Work]:
    return {work.namespace: work for work in effects if isinstance(work, Work)}


def test_finalizer_is_set_before_anything_is_written() -> None:
    (after,) = reconcile(service(finalizers=[]), *fleet("m1", "m2"))
    assert after.metadata.finalizers == (FINALIZER,)


def test_service_is_claimed_and_bound_to_all_its_clusters_and_providers_are_asked() -> None:
    effects = reconcile(service(), *fleet("m1", "m2", "m3"))
    asked = works_in(effects)["karmada-es-m1"]
    assert asked.spec.suspend_dispatching
    assert slices.kinds_in(asked) == {"MultiClusterService"}
    (claim,) = (one for one in effects if isinstance(one, Ensure))
    assert claim.wanted["metadata"]["labels"][well_known.CLAIMED_BY] == "MultiClusterService"
    (binding,) = (one for one in effects if isinstance(one, ResourceBinding))
    assert binding.spec.placement is not None
    assert binding.spec.placement.cluster_affinity is not None
    assert binding.spec.placement.cluster_affinity.cluster_names == ("m1", "m2")
    (after,) = (one for one in effects if isinstance(one, MultiClusterService))
    assert [(one.type, one.status) for one in after.status.conditions] == [("ServiceApplied", "True")]


def test_named_clusters_that_do_not_exist_are_reported() -> None:
    effects = reconcile(service("m1 m7", "m8 m2"), *fleet("m1", "m2"))
    warnings = [(one.reason, one.message) for one in effects if isinstance(one, RecordEvent) and one.type == "Warning"]
    assert warnings == [
        ("ClusterNotFound", "Provider cluster m7 is not found"),
        ("ClusterNotFound", "Consumer cluster m8 is not found"),
    ]


def test_missing_service_is_reported() -> None:
    effects = reconcile(service(), *fleet("m1", "m2"), raws=())
    (after,) = (one for one in effects if isinstance(one, MultiClusterService))
    (condition,) = after.status.conditions
    assert (condition.status, condition.reason) == ("False", "ServiceAppliedFailed")


def test_consumers_get_slices_of_other_clusters_only() -> None:
    subject = service("m1 m2", "m1 m2")
    effects = reconcile(subject, *fleet("m1", "m2"), collected(subject), collected(subject, "m2"))
    copies = [one for one in effects if isinstance(one, Work) and slices.is_dispatched_slice(one)]
    names = {(one.namespace, one.spec.workload.manifests[0]["metadata"]["name"]) for one in copies}
    assert names == {("karmada-es-m1", "m2-web-x"), ("karmada-es-m2", "m1-web-x")}
    labels = copies[0].spec.workload.manifests[0]["metadata"]["labels"]
    assert labels[slices.MANAGED_BY] == slices.DISPATCHER
    assert labels[slices.SERVICE_LABEL] == "web"


def test_copies_are_taken_back_from_clusters_that_do_not_consume_any_more() -> None:
    subject = service()
    first = reconcile(subject, *fleet("m1", "m2", "m3"), collected(subject))
    copy = works_in(first)["karmada-es-m2"]
    later = reconcile(service(consumers="m3"), *fleet("m1", "m2", "m3"), collected(subject), copy)
    assert Delete(copy) in later
    unready = [*fleet("m1"), *fleet("m2", ready="False")]
    assert Delete(copy) not in reconcile(subject, *unready, collected(subject), copy)


def test_deletion_takes_back_works_and_claims_and_keeps_the_placement() -> None:
    subject = service()
    first = reconcile(subject, *fleet("m1", "m2"), collected(subject))
    works = works_in(first)
    (binding,) = (one for one in first if isinstance(one, ResourceBinding))
    claimed = next(one.wanted for one in first if isinstance(one, Ensure))
    gone = service(deletionTimestamp="2026-01-01T00:00:00Z")
    effects = reconcile(gone, *works.values(), binding, raws=(claimed,))
    deleted = {one.target.namespace for one in effects if isinstance(one, Delete)}
    assert deleted == {"karmada-es-m1", "karmada-es-m2"}
    (released,) = (one for one in effects if isinstance(one, ResourceBinding))
    assert slices.SERVICE_ID not in released.metadata.labels
    assert released.spec == binding.spec
    (after,) = (one for one in effects if isinstance(one, MultiClusterService))
    assert after.metadata.finalizers == ()


def test_clusters_and_collected_slices_wake_the_service() -> None:
    subject = service()
    view = FakeView([subject])
    (one,) = (thing for thing in fleet("m1") if thing.name == "m1")
    assert list(all_services(None, one, view)) == [key_of(subject)]
    assert list(all_services(one, one, view)) == []
    work = collected(subject)
    assert list(services_of_changed_work(None, work, view)) == [key_of(subject)]
    reported = work.but(status=work.status.but(conditions=()))
    assert list(services_of_changed_work(work, reported, view)) == []
